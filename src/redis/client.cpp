#include "redis/client.hpp"

#include "net/reconnect_backoff.hpp"
#include "net/tls.hpp"
#include "redis/connection_node.hpp"
#include "redis/resp/writer.hpp"
#include "redis/server_error.hpp"

#include <boost/range/adaptor/reversed.hpp>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace syncguard::redis {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

/// While these are under way, others gather for the next. They keep the server busy while the
/// answers of one are worked through; more would only make the calls smaller.
constexpr std::size_t calls_under_way = 3;

/// Bounds the time that one call keeps the server from serving others.
constexpr std::size_t operations_per_call = 64;

/// How long a connection that is no longer used is kept for answers that are still to come.
constexpr auto patience_with_late_answers = 30s;

/// How many such connections are kept.
constexpr std::size_t most_retired = 8;

/// A connection with outstanding answers is treated as dead after a silence of this length. A
/// caller's timeout is no sign of that: it may be shorter than the round trip.
constexpr milliseconds longest_silence{250};

/// If a server cannot write, the client connects to the address that the host name leads to now,
/// but at most once in this time, since the name may still lead to a replica.
constexpr milliseconds shortest_stay{1'000};

/// Before an operation is repeated while the client's end waits for it.
constexpr milliseconds pause_at_the_end{100};

/// How many of all operations one call should carry, if so many are in other calls.
std::size_t fair_share(std::size_t under_way) {
    return std::min((under_way + calls_under_way - 2) / (calls_under_way - 1), operations_per_call);
}

lock_error cancelled_by_caller() {
    return {error_code::aborted, "the operation was cancelled"};
}

}  // namespace

client::client(options store)
    : store_(std::move(store)),
      where_(describe_server(store_)),
      // NOLINTNEXTLINE(bugprone-throw-keyword-missing): it is made while there is memory for it
      out_of_memory_(error_code::internal, "out of memory on the way to " + where_),
      desk_(*this, where_) {}

client::~client() {
    // What is in there must be taken out before it is destroyed.
    deadlines_.clear();
}

void client::prepare() {
    if (!store_.tls || tls_) return;
    tls_ = net::make_tls_context({.authorities = store_.tls->ca_file,
                                  .certificate = store_.tls->certificate_file,
                                  .private_key = store_.tls->private_key_file});
}

// Called by any thread.

void client::perform(const std::shared_ptr<operation>& what) {
    desk_.perform(what);
}

void client::start(const std::shared_ptr<operation>& what) {
    desk_.start(what);
}

void client::cancel(std::shared_ptr<operation> what) noexcept {
    desk_.cancel(std::move(what));
}

void client::end(std::chrono::milliseconds patience) {
    hurry_ = true;
    desk_.end(patience);
}

// Called by the thread that drives.

void client::start_at(time_point when, std::shared_ptr<operation> what) {
    if (ending_) when = std::min<time_point>(when, steady_clock::now() + pause_at_the_end);
    desk_.count_in(*later_.emplace(when, std::move(what))->second);
}

net::driven::wishes client::step() {
    const auto now = steady_clock::now();
    take_news();
    take_what_was_put_off(now);
    end_overdue(now);
    connect_if_needed(now);
    send_waiting();
    drop_idle_links(now);
    announce_ended();
    return {.at = next_wakeup(now),
            .tasks = tasks_wanted(),
            .answer_is_due = current_ != nullptr && !current_->in_flight.empty()};
}

net::driven::sight client::look() {
    if (socket_to_look_at() < 0) return sight::only_the_loop_can_tell;
    return current_->wire->look() ? sight::something_came : sight::nothing_came;
}

int client::socket_to_look_at() const {
    const bool only_one_can_bring_news = links_.size() == 1 && current_ != nullptr;
    return only_one_can_bring_news ? current_->wire->socket_to_look_at() : -1;
}

bool client::is_answered_from_this_cpu() const {
    return current_ != nullptr && current_->wire->is_answered_from_this_cpu();
}

bool client::has_work() const {
    if (!news_.empty() || !withdrawn_.empty() || queued() > 0 || !later_.empty() ||
        !lounge_.empty() || !ended_.empty()) {
        return true;
    }
    return std::any_of(links_.begin(), links_.end(),
                       [](const auto& each) { return !each->ready || !each->in_flight.empty(); });
}

void client::take_news() {
    work_through_news();
    desk_.driver().take_tasks(news_);
    desk_.take_cancelled(withdrawn_);
    work_through_news();
}

/// What was left when memory ran out goes on from there.
void client::work_through_news() {
    while (news_taken_ < news_.size()) {
        admit(std::static_pointer_cast<operation>(news_[news_taken_]));
        ++news_taken_;
    }
    news_.clear();
    news_taken_ = 0;
    while (!withdrawn_.empty()) {
        // One that has not come in yet is looked after when it does.
        const auto each = std::static_pointer_cast<operation>(withdrawn_.back());
        if (each->admitted_) give_up(each, cancelled_by_caller());
        withdrawn_.pop_back();
    }
}

/// What is due by now; once the end has come, all of it.
void client::take_what_was_put_off(time_point now) {
    const bool the_end_has_come = hurry_.exchange(false);
    ending_ = ending_ || the_end_has_come;
    while (!later_.empty() && (the_end_has_come || later_.begin()->first <= now)) {
        admit(later_.begin()->second);
        later_.erase(later_.begin());
    }
}

void client::admit(const std::shared_ptr<operation>& what) {
    // So that no operation ever ends without being announced.
    if (const auto most = ended_.size() + admitted_ + 1; ended_.capacity() < most) {
        ended_.reserve(2 * most);
    }
    queue_of(*what).push_back(what);
    // Most deadlines are as far away as those before.
    deadlines_.insert(deadlines_.end(), *what);
    what->admitted_ = true;
    what->number_ = ++last_number_;
    ++admitted_;
    if (what->is_unwanted()) give_up(what, cancelled_by_caller());
}

operation_queue& client::queue_of(const operation& op) {
    return op.has_priority() ? priority_ : waiting_;
}

void client::end_overdue(time_point now) {
    while (!deadlines_.empty() && deadlines_.begin()->deadline_ <= now) {
        const auto late = deadlines_.begin()->shared_from_this();
        if (late->state_ == operation::state::lingering) {
            if (late->lingers(now)) {
                resume(*late);
            } else {
                lounge_.erase(late->place_in_lounge_);
                set_ended(late);
            }
        } else if (late->state_ == operation::state::sent) {
            // The connection may be dead, or an answer may be lost: no other operation is sent on
            // it, so that none waits for it or receives the answer of this one.
            late->sent_on_->is_late = true;
            give_up(late, {error_code::network_timeout, where_ + " did not answer in time"});
        } else if (why_not_connected_) {
            give_up(late, *why_not_connected_);
        } else if (current_ != nullptr && current_->ready) {
            give_up(late, {error_code::network_timeout, "too many operations waited for " + where_ +
                                                            ": this one was not sent in time"});
        } else {
            give_up(late, {error_code::network_timeout,
                           "no connection to " + where_ + " was ready in time"});
        }
    }
    retire_if_silent(now);
    drop_ended_from_waiting();
}

void client::drop_ended_from_waiting() {
    if (std::exchange(ended_while_waiting_, 0) == 0) return;
    for (auto* const queue : {&priority_, &waiting_}) {
        std::erase_if(*queue,
                      [](const auto& each) { return each->state_ == operation::state::ended; });
    }
}

void client::connect_if_needed(time_point now) {
    if (current_ != nullptr || queued() == 0 || now < connect_not_before_) return;
    try {
        prepare();
    } catch (const lock_error& why) {
        on_no_connection(why);
        return;
    }
    auto made = std::make_unique<link>(*this);
    made->wire = std::make_shared<connection>(desk_.driver().context(), store_,
                                              tls_ ? &*tls_ : nullptr, shown_sockets_, *made);
    links_.reserve(links_.size() + 1);
    made->wire->open();
    current_ = made.get();
    links_.push_back(std::move(made));
    why_not_connected_.reset();
}

void client::send_waiting() {
    drop_ended_from_waiting();
    while (is_worth_a_call())
        send_batch();
}

/// What is there is sent at once where nothing is under way. Else it has to be a fair share of all
/// operations: a small call costs the server nearly as much as a large one.
bool client::is_worth_a_call() const {
    if (queued() == 0 || current_ == nullptr || !current_->ready) return false;
    const std::size_t calls = current_->in_flight.size();
    if (calls == 0) return true;
    if (current_->must_drain()) return false;
    return calls < calls_under_way && queued() >= fair_share(current_->operations());
}

/// How many operations, added to those that wait, would be worth a call.
std::size_t client::tasks_wanted() const {
    if (current_ == nullptr) return 1;
    const bool only_an_answer_helps =
        !current_->ready || current_->must_drain() || current_->in_flight.size() >= calls_under_way;
    if (only_an_answer_helps) return std::numeric_limits<std::size_t>::max();
    const std::size_t share = fair_share(current_->operations());
    return share > queued() ? share - queued() : 1;
}

/// The number of operations at the fronts of `priority_` and `waiting_` that form the next call.
std::pair<std::ptrdiff_t, std::ptrdiff_t> client::next_call() const {
    // An operation that is sent alone goes before later ones with priority. Otherwise it would hold
    // up the whole queue for as long as those keep coming.
    const bool waiting_goes_first =
        !waiting_.empty() && waiting_.front()->alone_ &&
        (priority_.empty() || waiting_.front()->number_ < priority_.front()->number_);
    if (waiting_goes_first) return {0, 1};
    if (!priority_.empty() && priority_.front()->alone_) return {1, 0};
    const auto together = [](const operation_queue& queue, std::size_t most) {
        const auto end = queue.begin() + static_cast<std::ptrdiff_t>(std::min(queue.size(), most));
        return std::find_if(queue.begin(), end, [](const auto& each) { return each->alone_; }) -
               queue.begin();
    };
    const auto with_priority = together(priority_, operations_per_call);
    const std::size_t room = operations_per_call - static_cast<std::size_t>(with_priority);
    return {with_priority, together(waiting_, room)};
}

void client::send_batch() {
    const auto [first, second] = next_call();
    batch call;
    call.reserve(static_cast<std::size_t>(first + second));
    for (const bool acquires : {false, true}) {
        for (const auto& [queue, count] : {std::pair(&priority_, first), {&waiting_, second}}) {
            std::copy_if(queue->begin(), queue->begin() + count, std::back_inserter(call),
                         [&](const auto& each) { return each->input_.acquires == acquires; });
        }
    }
    const auto order = [](const auto& one, const auto& other) {
        return comes_before(one->input_, other->input_);
    };
    // They mostly are by now, and to sort them costs more than to look.
    if (!std::is_sorted(call.begin(), call.end(), order)) {
        std::stable_sort(call.begin(), call.end(), order);
    }
    inputs_.clear();
    for (const auto& each : call)
        inputs_.push_back(&each->input_);
    call_bytes_.clear();
    append_call(call_bytes_, inputs_, current_->script_is_known);

    if (current_->in_flight.empty()) current_->silent_since = steady_clock::now();
    current_->in_flight.push_back({.operations = std::move(call)});
    priority_.erase(priority_.begin(), priority_.begin() + first);
    waiting_.erase(waiting_.begin(), waiting_.begin() + second);
    current_->script_is_known = true;
    current_->drains = false;
    current_->is_late = false;
    const auto now = lease_clock::now();
    for (const auto& each : current_->in_flight.back().operations) {
        each->state_ = operation::state::sent;
        each->sent_on_ = current_;
        each->about_to_be_sent(now);
        if (store_.command_timeout) {
            const time_point limit = steady_clock::now() + *store_.command_timeout;
            set_deadline(*each, std::min(each->deadline_, limit));
        }
    }
    try {
        current_->wire->send(call_bytes_);
    } catch (const std::bad_alloc&) {
        // No call may stay in flight that was not sent: it would get the answer to the next.
        close(*current_, out_of_memory_);
    }
}

void client::set_deadline(operation& what, time_point deadline) {
    deadlines_.erase(deadlines_.iterator_to(what));
    what.deadline_ = deadline;
    deadlines_.insert(what);
}

void client::drop_idle_links(time_point now) {
    while (true) {
        const auto idle = std::find_if(links_.begin(), links_.end(), [&](const auto& each) {
            return each->retired && (each->in_flight.empty() || now >= each->keep_until);
        });
        if (idle == links_.end()) return;
        close(**idle, {error_code::network_timeout, where_ + " did not answer in time"});
    }
}

void client::announce_ended() {
    if (ended_.empty()) return;
    // Kept for the next time; a call from within finds none, and makes its own.
    auto ended = std::exchange(room_for_ended_, {});
    ended.reserve(ended_.capacity());
    ended.swap(ended_);
    for (const auto& each : ended)
        desk_.count_out(*each);
    desk_.driver().mark_finished(ended, [](std::shared_ptr<operation>& each) {
        each->announce();
        each.reset();
    });
    std::erase(ended, nullptr);
    // Nobody who sleeps is kept waiting by others' completions.
    if (std::any_of(ended.begin(), ended.end(),
                    [](const auto& each) { return each->calls_back(); }))
        desk_.driver().wake_finished();
    for (const auto& each : ended)
        each->announce();
    ended.clear();
    room_for_ended_ = std::move(ended);
}

time_point client::next_wakeup(time_point now) const {
    time_point next = now + 1h;
    if (!deadlines_.empty()) next = std::min(next, deadlines_.begin()->deadline_);
    if (!later_.empty()) next = std::min(next, later_.begin()->first);
    if (current_ == nullptr && queued() > 0) next = std::min(next, connect_not_before_);
    if (current_ != nullptr && current_->is_late && current_->must_drain()) {
        next = std::min(next, current_->silent_since + longest_silence);
    }
    for (const auto& each : links_) {
        if (each->retired) next = std::min(next, each->keep_until);
    }
    return next;
}

// What connections tell.

void client::on_reply(link& which, const resp::value& reply) {
    if (which.in_flight.empty()) {
        close(which, {error_code::internal, where_ + " sent an answer that nobody asked for; the "
                                                     "connection was closed"});
        return;
    }
    // A connection proves itself by an answer: some servers greet and then close.
    failed_connections_ = 0;
    which.silent_since = steady_clock::now();
    if (which.in_flight.front().preliminaries > 0) {
        --which.in_flight.front().preliminaries;
        // Not permitted, or not known: then nobody will be told of changes.
        if (reply.is_error()) which.tracks = link::tracking::refused;
        return;
    }
    if (which.in_flight.front().watched) {
        on_watched(which, reply);
        which.in_flight.pop_front();
        return;
    }
    // They stay there until all is done: if memory runs out, they go the way of the connection.
    const batch& call = which.in_flight.front().operations;
    if (reply.type() == resp::kind::array && reply.size() == call.size() + 1 &&
        reply[0].type() == resp::kind::integer) {
        auto part = reply.begin();
        const unix_time server_time{milliseconds((*part).integer())};
        bool failed_over = false;
        for (const auto& each : call) {
            deliver(each, {*++part, server_time});
            if ((*part).is_error() && may_have_failed_over((*part).text())) failed_over = true;
        }
        if (which.drains) fail_overtaken_extensions(call);
        if (failed_over) retire_after_failover(which);
    } else if (!reply.is_error()) {
        close(which, {error_code::internal, where_ + " gave an answer that does not fit the "
                                                     "question; the connection was closed"});
        return;
    } else if (reply.text().starts_with("NOSCRIPT")) {
        which.script_is_known = false;
        take_back(which, false);
    } else if (call.size() > 1 && may_concern_one_key(reply.text())) {
        take_back(which, true);
    } else {
        const lock_error why = to_lock_error(reply.text(), where_);
        const bool nothing_done = is_refusal(reply.text());
        for (const auto& each : call) {
            if (nothing_done) {
                fail(each, why);
            } else {
                lose(each, why);
            }
        }
        if (may_have_failed_over(reply.text())) retire_after_failover(which);
    }
    which.in_flight.pop_front();
}

void client::on_push(const resp::value& news) {
    if (lounge_.empty() || news.size() < 2 || news[0].text() != "invalidate") return;
    const auto notify = [this](operation& op) {
        op.notified_ = true;
        resume(op);
    };
    if (news[1].is_null()) {
        // All keys are gone.
        while (!lounge_.empty())
            notify(*lounge_.begin()->second);
        return;
    }
    for (const auto& key : news[1]) {
        for (auto who = lounge_.find(key.text()); who != lounge_.end();
             who = lounge_.find(key.text()))
            notify(*who->second);
    }
}

void client::on_closed(link& which, const lock_error& why) {
    const auto position = std::find_if(links_.begin(), links_.end(),
                                       [&](const auto& each) { return each.get() == &which; });
    const std::unique_ptr<link> gone = std::move(*position);
    links_.erase(position);
    if (current_ == gone.get()) {
        current_ = nullptr;
        if (!gone->ready) {
            on_no_connection(why);
        } else if (failed_connections_++ > 0) {
            // It greets and closes: not in a busy loop, but each call shall see an attempt.
            connect_not_before_ = steady_clock::now() + net::first_reconnect_delay;
        }
    }
    for (const auto& call : gone->in_flight) {
        for (const auto& each : call.operations)
            lose(each, why);
    }
    resume_those_of(*gone);
}

void client::on_no_connection(const lock_error& why) {
    connect_not_before_ = steady_clock::now() + net::reconnect_delay(++failed_connections_);
    why_not_connected_ = why;
    for (const auto* const queue : {&priority_, &waiting_}) {
        for (const auto& each : *queue) {
            if (!each->persists() && !each->has_lingered_) fail(each, why);
        }
    }
    drop_ended_from_waiting();
}

void client::close(link& which, const lock_error& why) {
    which.wire->close();
    on_closed(which, why);
}

bool client::somebody_waits_for(const std::deque<sent_call>& calls) {
    return std::any_of(calls.begin(), calls.end(), [](const sent_call& each) {
        return std::any_of(each.operations.begin(), each.operations.end(),
                           [](const auto& what) { return what->state_ == operation::state::sent; });
    });
}

/// No new operation is sent on it; the answers to those that were sent may still come.
void client::retire(link& which) {
    which.retired = true;
    which.keep_until = steady_clock::now() + patience_with_late_answers;
    if (current_ == &which) current_ = nullptr;
    resume_those_of(which);
    std::size_t retired = 0;
    for (const auto& each : boost::adaptors::reverse(links_)) {
        if (!each->retired || ++retired <= most_retired) continue;
        if (!somebody_waits_for(each->in_flight)) each->keep_until = {};
    }
}

/// While answers are late, operations wait for them. If the connection has been silent for
/// `longest_silence`, it is retired, and operations are sent on another one.
void client::retire_if_silent(time_point now) {
    if (current_ == nullptr || !current_->is_late || !current_->must_drain()) return;
    if (now - current_->silent_since >= longest_silence) retire(*current_);
}

/// After a failover the host name may lead to another server: each new connection looks it up
/// again.
void client::retire_after_failover(link& conn) {
    if (&conn != current_) return;
    const auto now = steady_clock::now();
    if (now < stay_until_) return;
    stay_until_ = now + shortest_stay;
    retire(conn);
}

/// The server did nothing with the oldest call: its operations go again, before all that were
/// admitted after them.
void client::take_back(link& which, bool alone) {
    which.drains = true;
    for (const auto& each : which.in_flight.front().operations) {
        if (each->state_ != operation::state::sent) continue;
        auto& queue = queue_of(*each);
        queue.insert(
            std::find_if(queue.begin(), queue.end(),
                         [&](const auto& other) { return other->number_ > each->number_; }),
            each);
        each->state_ = operation::state::waiting;
        each->alone_ = each->alone_ || alone;
    }
}

/// Extensions of a lock are executed in the order of their admission. One that was refused would
/// come too late, if another of the same lock, admitted after it, has been executed.
void client::fail_overtaken_extensions(const batch& executed) {
    for (const auto& refused : priority_) {
        const bool is_overtaken =
            std::any_of(executed.begin(), executed.end(), [&](const auto& each) {
                return each->number_ > refused->number_ &&
                       extend_same_lock(each->input_, refused->input_);
            });
        if (is_overtaken) {
            fail(refused, {error_code::service_unavailable,
                           where_ + " refused to extend a lock and then executed a later extension "
                                    "of it; try again"});
        }
    }
}

// How operations end.

void client::deliver(const std::shared_ptr<operation>& what, const script_reply& reply) {
    if (what->state_ == operation::state::given_up) {
        what->answer_late(reply);
        return;
    }
    if (what->is_unwanted()) {
        fail(what, cancelled_by_caller());
        what->answer_late(reply);
        return;
    }
    if (what->sent_on_->tracks != link::tracking::refused) {
        const bool notified = std::exchange(what->notified_, false);
        if (auto patience = what->wait_after(reply, notified)) {
            if (patience->watches) {
                watch(what, *std::move(patience));
            } else {
                let_linger(what, *std::move(patience));
            }
            return;
        }
    }
    what->answer(reply);
    set_ended(what);
}

/// The server did nothing.
void client::fail(const std::shared_ptr<operation>& what, const lock_error& why) {
    if (what->state_ == operation::state::ended || what->state_ == operation::state::given_up) {
        return;
    }
    if (what->state_ == operation::state::waiting) ++ended_while_waiting_;
    if (what->state_ == operation::state::lingering) lounge_.erase(what->place_in_lounge_);
    what->fail(why);
    set_ended(what);
}

/// Whoever waits is told now. If the operation was sent, its answer may still come.
void client::give_up(const std::shared_ptr<operation>& what, const lock_error& why) {
    const bool was_sent = what->state_ == operation::state::sent;
    fail(what, why);
    if (!was_sent) return;
    what->state_ = operation::state::given_up;
    what->given_up_when_sent();
}

/// The server may have performed it, and will never say.
void client::lose(const std::shared_ptr<operation>& what, const lock_error& why) {
    if (what->state_ == operation::state::ended) return;
    fail(what, why);
    what->lose();
}

void client::set_ended(const std::shared_ptr<operation>& what) {
    what->state_ = operation::state::ended;
    deadlines_.erase(deadlines_.iterator_to(*what));
    --admitted_;
    ended_.push_back(what);
}

// How operations wait for a key to change.

/// Asks the server to tell of changes of the key, and whether it is still there. Only of this key:
/// a server that tracked all would tell of every lock that comes and goes.
void client::watch(const std::shared_ptr<operation>& what, operation::patience how) {
    link& on = *what->sent_on_;
    std::string commands;
    const auto append = [&](std::initializer_list<std::string_view> words) {
        resp::append_command_header(commands, words.size());
        for (const auto word : words)
            resp::append_bulk(commands, word);
    };
    unsigned preliminaries = 1;
    if (on.tracks == link::tracking::not_asked_for) {
        append({"CLIENT", "TRACKING", "ON", "OPTIN"});
        ++preliminaries;
    }
    append({"CLIENT", "CACHING", "YES"});
    append({"EXISTS", how.key});
    on.in_flight.push_back(
        {.operations = {what}, .watched = std::move(how), .preliminaries = preliminaries});
    on.tracks = link::tracking::on;
    on.wire->send(commands);
}

void client::on_watched(link& which, const resp::value& reply) {
    sent_call& call = which.in_flight.front();
    const auto& what = call.operations.front();
    if (what->state_ != operation::state::sent) return;
    const bool is_there = reply.type() == resp::kind::integer && reply.integer() == 1;
    if (which.tracks == link::tracking::refused || reply.is_error()) {
        set_ended(what);
    } else if (is_there) {
        let_linger(what, *std::move(call.watched));
    } else {
        queue_of(*what).push_back(what);
        what->state_ = operation::state::waiting;
        set_deadline(*what, what->final_deadline_);
    }
}

void client::let_linger(const std::shared_ptr<operation>& what, operation::patience how) {
    what->place_in_lounge_ = lounge_.emplace(std::move(how.key), what);
    what->state_ = operation::state::lingering;
    what->has_lingered_ = true;
    set_deadline(*what, how.until);
}

/// Whatever changes, they will not hear of it on this connection.
void client::resume_those_of(const link& deaf) {
    for (auto each = lounge_.begin(); each != lounge_.end();) {
        operation& what = *(each++)->second;
        if (what.sent_on_ == &deaf) resume(what);
    }
}

/// Sends it again.
void client::resume(operation& what) {
    queue_of(what).push_back(what.shared_from_this());
    lounge_.erase(what.place_in_lounge_);
    what.state_ = operation::state::waiting;
    set_deadline(what, what.final_deadline_);
}

}  // namespace syncguard::redis
