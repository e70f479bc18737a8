#include "postgres/client.hpp"

#include "net/reconnect_backoff.hpp"
#include "postgres/connection_node.hpp"
#include "postgres/server_error.hpp"
#include "postgres/statements.hpp"
#include "util/bounded_wait.hpp"

#include <boost/range/adaptor/reversed.hpp>

#include <algorithm>
#include <random>
#include <tuple>
#include <utility>

namespace syncguard::postgres {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

/// While so many transactions with operations alike are under way, others gather for the next: a
/// transaction with many costs the server little more than one with few.
constexpr std::size_t most_lists_under_way = 4;
constexpr std::size_t operations_per_list = 32;
/// Those that take longer wait for somebody on the server, and hold up no others.
constexpr milliseconds usual_time_of_a_list{100};
/// How far is looked for operations alike.
constexpr std::size_t longest_look = 128;
/// How long a few others may wait to be looked at meanwhile.
constexpr milliseconds longest_gathering{2};
constexpr std::size_t worth_a_look = 16;

/// How often an operation is sent again without the names of prepared statements.
constexpr unsigned most_repetitions = 10;
/// How often an operation is sent again if only a new connection can help, or after its connection
/// broke.
constexpr unsigned most_moves = 2;
/// The longest pause before an operation that collided with others is repeated. The first time
/// there is no pause; then it doubles each time.
constexpr milliseconds longest_pause{100};

/// The error of a statement that waited for as long as `lock_timeout` permits.
constexpr std::string_view sqlstate_of_long_wait = "55P03";

/// After a step of its wall clock the server ends a statement by `statement_timeout` too early:
/// with more time left than this. A server that does not answer in English is not understood; then
/// the call fails.
constexpr milliseconds left_at_the_limit{50};
bool is_statement_timeout(const refusal& why) {
    return why.sqlstate == "57014" && why.message.find("statement timeout") != std::string::npos;
}

/// How long the answer to an operation that was cancelled is waited for. Mostly it is there in a
/// moment, and then nothing is left to be cleaned up.
constexpr milliseconds patience_with_cancelled{100};

/// After this time without the answer of an abandoned operation, the server is asked to stop; after
/// `longest_draining` the connection is closed. It is not closed at once, because the server would
/// go on waiting behind a closed connection.
constexpr milliseconds patience_with_late_answers{1'000};
/// After this time another connection may be opened in place of one whose answer is abandoned. So
/// callers with timeouts shorter than a round trip do not open a connection each.
constexpr milliseconds patience_before_replacement{200};
constexpr milliseconds longest_draining{5'000};
/// How long the destructor of a client waits until its last cancel requests are sent.
constexpr milliseconds patience_with_cancel_requests{200};

/// How long it is assumed that a server has no connection left.
constexpr milliseconds longest_crowd{10'000};
/// Up to this number, ends of locks are not looked through for those that have passed.
constexpr std::size_t fewest_ends_of_locks = 64;
/// How long an operation waits for a connection that listens and is in use, before another is made.
constexpr milliseconds patience_with_lookout{500};

/// Before an operation is repeated while the client's end waits for it.
constexpr milliseconds pause_at_the_end{100};

lock_error cancelled_by_caller() {
    return {error_code::aborted, "the operation was cancelled"};
}

std::optional<milliseconds> bounded(std::optional<milliseconds> limit) {
    return limit ? std::optional(bounded_wait(*limit)) : std::nullopt;
}

/// A random duration between half of `whole` and `whole`.
milliseconds with_jitter(milliseconds whole) {
    thread_local std::minstd_rand generator(std::random_device{}());
    return milliseconds(std::uniform_int_distribution<milliseconds::rep>(whole.count() / 2,
                                                                         whole.count())(generator));
}

}  // namespace

bool operation::may_free_a_key() const noexcept {
    return call_.may_wait_for_rows && (call_.enter == nullptr || call_.always_enters);
}

bool operation::needs_lane() const noexcept {
    if (alone_ || call_.always_enters) return call_.enter != nullptr || call_.may_wait_for_rows;
    return call_.may_wait_for_rows && !call_.takes_lists;
}

lane operation::its_lane() const noexcept {
    if (call_.enter != nullptr) return {.of_key = true, .name = call_.turn};
    return {.of_key = false, .name = call_.parameters.front()};
}

/// Within a lane, releases in the background go before operations that wait for the key.
bool operation::goes_before::operator()(const operation& a, const operation& b) const noexcept {
    const auto rank = [](const operation& each) {
        return std::tuple(each.its_lane(), !each.persists(), each.turn_);
    };
    return rank(a) < rank(b);
}
bool operation::goes_before::operator()(const operation& a, const lane& b) const noexcept {
    return a.its_lane() < b;
}
bool operation::goes_before::operator()(const lane& a, const operation& b) const noexcept {
    return a < b.its_lane();
}

bool operation::has_another_way(std::string_view sqlstate) noexcept {
    const bool falls_back = call_.fallback_after == call::refusals::all || is_shortage(sqlstate);
    if (call_.fallback == nullptr || !falls_back) return false;
    call_.what = std::exchange(call_.fallback, nullptr);
    return true;
}

client::client(const options& store)
    : target_(store),
      named_tables_(checked_tables(store.tables)),
      pool_size_(store.pool_size),
      statement_timeout_(bounded(store.statement_timeout)),
      desk_(*this, where()),
      lookout_(*this) {}

client::~client() {
    // What is in there must be taken out before it is destroyed.
    for (auto* const each : {&waiting_, &lone_, &urgent_, &releases_, &alike_})
        each->clear();
    lanes_.clear();
    held_back_.clear();
    deadlines_.clear_and_dispose([](operation* each) { each->self_.reset(); });
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
    // No thread runs the event loop any more.
    for (const auto& each : links_) {
        if (each->draining && !each->draining->is_cancelled) cancel_work(*each);
    }
    canceller_.finish(patience_with_cancel_requests);
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
    end_silent_greetings(now);
    look_after_draining(now);
    lookout_.step(now);
    look_after_listening_link(now);
    send_waiting();
    connect_if_needed(now);
    announce_ended();
    return {.at = next_wakeup(now), .tasks = tasks_wanted()};
}

bool client::has_work() const {
    if (!news_.empty() || !withdrawn_.empty() || admitted_ > 0 || !later_.empty() ||
        !ended_.empty() || lookout_.has_work()) {
        return true;
    }
    return std::any_of(links_.begin(), links_.end(),
                       [](const auto& each) { return !each->is_idle(); });
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
        if (each->self_) withdraw(each);
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
    what->turn_ = ++turns_;
    extensions_come_ = extensions_come_ || what->is_urgent();
    enqueue(*what, false);
    deadlines_.insert(*what);
    what->self_ = what;
    ++admitted_;
    if (what->is_unwanted()) withdraw(what);
}

void client::withdraw(const std::shared_ptr<operation>& what) {
    if (what->state_ == operation::state::sent) {
        bring_forward(*what, steady_clock::now() + patience_with_cancelled);
    } else {
        fail(what, cancelled_by_caller());
    }
}

void client::enqueue(operation& what, bool first) noexcept {
    what.state_ = operation::state::waiting;
    if (enter_lane(what)) put_in_queue(what, first);
}

void client::put_in_queue(operation& what, bool first) noexcept {
    auto& queue = queue_of(what);
    queue.insert(first ? queue.begin() : queue.end(), what);
    what.queue_ = &queue;
}

void client::dequeue(operation& what) noexcept {
    if (what.queue_ == nullptr) return;
    what.queue_->erase(what.queue_->iterator_to(what));
    what.queue_ = nullptr;
}

/// False if another operation is in the lane of this one, which is then held back until the other
/// one has left the lane.
bool client::enter_lane(operation& what) noexcept {
    if (what.lane_hook::is_linked() || !what.needs_lane()) return true;
    if (lanes_.insert(what).second) return true;
    held_back_.insert(what);
    what.is_held_back_ = true;
    return false;
}

void client::leave_lane(operation& what) noexcept {
    if (!what.lane_hook::is_linked()) return;
    if (std::exchange(what.is_held_back_, false)) {
        held_back_.erase(held_back_.iterator_to(what));
        return;
    }
    lanes_.erase(lanes_.iterator_to(what));
    const auto next = held_back_.find(what.its_lane(), operation::goes_before());
    if (next == held_back_.end()) return;
    operation& successor = *next;
    held_back_.erase(next);
    successor.is_held_back_ = false;
    lanes_.insert(successor);
    put_in_queue(successor, true);
}

operation_queue& client::queue_of(const operation& what) {
    if (what.is_urgent()) return urgent_;
    if (what.needs_lane()) return lone_;
    if (!what.call_.takes_lists || what.alone_) return waiting_;
    return what.has_priority() ? releases_ : alike_;
}

void client::end_overdue(time_point now) {
    while (!deadlines_.empty() && deadlines_.begin()->deadline_ <= now) {
        const auto late = deadlines_.begin()->shared_from_this();
        if (late->state_ == operation::state::lingering) {
            if (late->lingers(now)) {
                resume(*late);
            } else {
                set_ended(late);
            }
        } else if (late->state_ == operation::state::pausing) {
            enqueue(*late, false);
            set_deadline(*late, late->final_deadline_);
        } else if (late->is_unwanted()) {
            give_up(late, cancelled_by_caller());
        } else if (late->is_held_back_) {
            give_up(late,
                    {error_code::network_timeout,
                     "others who use the same key were in the way for too long on " + where()});
        } else if (late->state_ == operation::state::sent) {
            give_up(late, {error_code::network_timeout, where() + " did not answer in time"});
        } else if (why_not_connected_) {
            give_up(late, *why_not_connected_);
        } else {
            const bool connected = std::any_of(links_.begin(), links_.end(),
                                               [](const auto& each) { return each->ready; });
            give_up(late, {error_code::network_timeout,
                           connected ? "no connection to " + where() + " was free in time"
                                     : where() + " did not complete the connection in time"});
        }
    }
}

// Who goes next, and where.

bool client::somebody_waits() const {
    return !waiting_.empty() || !lone_.empty() || !urgent_.empty() || !releases_.empty() ||
           !alike_.empty();
}

/// The queue whose front is sent next; null if none may be sent. Extensions and releases go before
/// the others, which go in the order of their arrival.
operation_queue* client::next_queue(bool may_wait_for_long) {
    if (!urgent_.empty()) return &urgent_;
    const bool may_send_list = lists_under_way() < most_lists_under_way;
    if (!releases_.empty() && may_send_list) return &releases_;
    operation_queue* next = nullptr;
    const auto consider = [&](operation_queue& queue) {
        if (queue.empty()) return;
        if (next == nullptr || queue.front().turn_ < next->front().turn_) next = &queue;
    };
    if (may_send_list) consider(alike_);
    consider(waiting_);
    if (may_wait_for_long) consider(lone_);
    return next;
}

/// Whether every connection of the pool is in use by an operation that may wait on the server for
/// long.
bool client::pool_waits_for_others() const {
    const auto waiting = std::count_if(links_.begin(), links_.end(), [](const auto& each) {
        return !each->reserved && !each->listens && !each->busy_with.empty() &&
               each->busy_with.front()->needs_lane();
    });
    return static_cast<std::size_t>(waiting) >= pool_size_;
}

bool client::wants_reserved_link() const {
    if (extensions_come_) return true;
    const bool others_wait = !waiting_.empty() || !releases_.empty() || !alike_.empty();
    return others_wait && pool_waits_for_others();
}

std::size_t client::lists_under_way() const {
    const auto stuck_since = steady_clock::now() - usual_time_of_a_list;
    return static_cast<std::size_t>(
        std::count_if(links_.begin(), links_.end(), [&](const auto& each) {
            return each->with_many_alike && !each->busy_with.empty() &&
                   each->busy_since > stuck_since;
        }));
}

link* client::idle_link(bool reserved) const {
    // The last ones are there only for rushes, and rest first.
    const auto found = std::find_if(links_.begin(), links_.end(), [&](const auto& each) {
        return each->is_idle() && each->reserved == reserved && !each->listens;
    });
    return found == links_.end() ? nullptr : found->get();
}

/// One whose end has not come while it was idle: what is sent after that is not known to be
/// without effect.
link* client::usable_link(bool reserved) {
    while (link* const idle = idle_link(reserved)) {
        if (idle->wire->is_alive()) return idle;
    }
    return nullptr;
}

// The connection of the lookout: a client that waits for a lock, and does nothing else, has no
// other.

link* client::listening_link() const {
    const auto found =
        std::find_if(links_.begin(), links_.end(), [](const auto& each) { return each->listens; });
    return found == links_.end() ? nullptr : found->get();
}

/// What is under way there keeps notifications back: not what may take long, if others wait to be
/// notified and another connection can be had.
bool client::may_use_listening_link(const operation& next) const {
    return lounge_.empty() || !next.needs_lane() || why_not_connected_;
}

/// Null also if the pool has another, which will be free some time.
link* client::usable_listening_link(const operation& next) {
    link* const listening = listening_link();
    const bool has_others = std::any_of(links_.begin(), links_.end(), [](const auto& each) {
        return each->ready && !each->reserved && !each->listens && !each->draining;
    });
    if (listening == nullptr || !listening->is_idle() || has_others) return nullptr;
    if (!may_use_listening_link(next)) return nullptr;
    return listening->wire->is_alive() ? listening : nullptr;
}

/// Until when an operation waits for it; the past if there is none.
time_point client::listening_link_is_free_by() const {
    const link* const listening = listening_link();
    if (listening == nullptr || listening->draining) return {};
    return lookout_.busy_since().value_or(listening->busy_since) + patience_with_lookout;
}

std::shared_ptr<connection> client::connection_for_lookout() {
    // After an out-of-memory error the former one may not have been closed yet.
    if (listening_link() != nullptr) return nullptr;
    link* const idle = usable_link(false);
    if (idle == nullptr) return nullptr;
    idle->listens = true;
    return idle->wire;
}

bool client::connection_is_free() const {
    const link* const listening = listening_link();
    return listening != nullptr && listening->is_idle();
}

void client::look_after_listening_link(time_point now) {
    if (gives_up_connections(now)) {
        if (connection_is_free()) lookout_.be_deaf_for(longest_crowd);
        if (admitted_ == 0) close_idle_links();
    }
    link* const listening = listening_link();
    if (listening == nullptr || lookout_.has_connection()) return;
    listening->listens = false;
    on_closed(*listening,
              {error_code::service_unavailable, "the connection to " + where() + " was closed"});
}

/// The server has no connection left, perhaps not for those either who hold locks and must extend
/// them: a client that only waits does so without a connection.
bool client::gives_up_connections(time_point now) {
    if (now >= crowded_until_) return false;
    while (!ends_of_locks_.empty() && ends_of_locks_.begin()->second <= now)
        ends_of_locks_.erase(ends_of_locks_.begin());
    return ends_of_locks_.empty();
}

void client::remember_end_of_lock(const operation& what) noexcept {
    const auto now = steady_clock::now();
    const auto known = what.known_end_of_lock(now);
    if (!known) return;
    if (known->at <= now) {
        ends_of_locks_.erase(known->id);
        return;
    }
    if (ends_of_locks_.size() >= most_ends_of_locks_) {
        std::erase_if(ends_of_locks_, [&](const auto& each) { return each.second <= now; });
        most_ends_of_locks_ = std::max(fewest_ends_of_locks, 2 * ends_of_locks_.size());
    }
    try {
        auto& end = ends_of_locks_[known->id];
        end = std::max(end, known->at);
    } catch (
        const std::bad_alloc&) {  // then the client may give up connections on behalf of others
    }
}

void client::send_waiting() {
    if (!urgent_.empty()) {
        if (link* const kept = usable_link(true)) send(*kept, urgent_);
    }
    while (auto* const queue = next_queue()) {
        link* idle = usable_link(false);
        if (idle == nullptr) idle = usable_listening_link(queue->front());
        if (idle == nullptr) break;
        send(*idle, *queue);
    }
    if (!pool_waits_for_others()) return;
    // None of these takes long, so that the next extension does not wait for long either.
    if (auto* const queue = next_queue(false)) {
        if (link* const kept = usable_link(true)) send(*kept, *queue);
    }
}

void client::send(link& on, operation_queue& from) {
    std::vector<timed_call> calls;
    calls.reserve(operations_per_list);
    on.busy_with.reserve(operations_per_list);
    on.busy_with.push_back(from.front().self_);
    dequeue(from.front());
    const bool alone = on.busy_with.front()->alone_;
    on.with_many_alike = &from == &alike_ || &from == &releases_;
    on.busy_since = steady_clock::now();
    if (on.with_many_alike) gather(on, from);
    for (const auto& each : on.busy_with) {
        each->state_ = operation::state::sent;
        each->sent_on_ = &on;
        if (statement_timeout_) bring_forward(*each, on.busy_since + *statement_timeout_);
        calls.push_back({&each->call_, on.server_time(each->deadline_)});
        each->about_to_be_sent(calls.back().deadline);
    }
    const auto time_left =
        std::chrono::ceil<milliseconds>(on.busy_with.front()->deadline_ - on.busy_since);
    transaction together;
    try {
        together = transaction_of(calls, alone, time_left);
        if (sets_settings_) {
            together.insert(together.begin(), {{&settings_.isolation, {}}, {&settings_.time, {}}});
        }
        for (auto& each : together)
            each.what = &qualified(*each.what);
    } catch (const std::bad_alloc&) {
        for (const auto& each : boost::adaptors::reverse(on.busy_with))
            enqueue(*each, true);
        on.busy_with.clear();
        throw;
    }
    on.wire->send(together, named_statements_);
}

/// Adds those who want the same of something else.
void client::gather(link& on, operation_queue& from) {
    auto& batch = on.busy_with;
    const statement* const kind = batch.front()->call_.what;
    const auto fits = [&](const operation& what) {
        const auto is_same = [&](const auto& other) {
            return other->call_.parameters.front() == what.call_.parameters.front();
        };
        return batch.size() < operations_per_list && what.call_.what == kind &&
               std::none_of(batch.begin(), batch.end(), is_same);
    };
    auto each = from.begin();
    for (std::size_t looked = 0; looked < longest_look && each != from.end(); ++looked) {
        operation& next = *each++;
        if (!fits(next)) continue;
        batch.push_back(next.self_);
        dequeue(next);
    }
}

void client::set_deadline(operation& what, time_point deadline) {
    deadlines_.erase(deadlines_.iterator_to(what));
    what.deadline_ = deadline;
    deadlines_.insert(what);
}

void client::bring_forward(operation& what, time_point deadline) {
    if (deadline < what.deadline_) set_deadline(what, deadline);
}

void client::connect_if_needed(time_point now) {
    if (now < connect_not_before_) return;
    // Connections that have been draining for a while are not counted, up to the number of
    // connections that are permitted anyway.
    std::size_t connections = 0;
    std::size_t coming = 0;
    std::size_t draining = 0;
    std::size_t kept = 0;
    std::size_t kept_and_draining = 0;
    for (const auto& each : links_) {
        if (each->listens) continue;
        ++(each->reserved ? kept : connections);
        if (each->draining && now >= each->draining->replace_at) {
            ++(each->reserved ? kept_and_draining : draining);
        }
        if (!each->reserved && !each->ready) ++coming;
    }
    if (wants_reserved_link() && kept < 1 + std::min<std::size_t>(kept_and_draining, 1) &&
        now >= keep_one_not_before_) {
        connect(true);
    }
    const std::size_t most_connections = pool_size_ + std::min(draining, pool_size_);
    const std::size_t lists =
        most_lists_under_way - std::min(most_lists_under_way, lists_under_way());
    std::size_t wanted = waiting_.size() + lone_.size() + urgent_.size() +
                         std::min(releases_.size() + alike_.size(), lists);
    if (wanted == 1 && connections == 0 && now < listening_link_is_free_by() &&
        may_use_listening_link(next_queue()->front())) {
        wanted = 0;
    }
    if (lookout_.needs_connection(now)) ++wanted;
    while (connections < most_connections && coming < wanted) {
        connect(false);
        ++connections;
        ++coming;
    }
}

void client::connect(bool reserved) {
    auto made = std::make_unique<link>(*this, reserved);
    made->wire =
        std::make_shared<connection>(desk_.driver().context(), target_, shown_sockets_, *made);
    links_.reserve(links_.size() + 1);
    made->wire->open();
    links_.push_back(std::move(made));
}

void client::announce_ended() {
    if (ended_.empty()) return;
    std::vector<std::shared_ptr<operation>> ended;
    ended.reserve(ended_.capacity());
    ended.swap(ended_);
    for (const auto& each : ended)
        desk_.count_out(*each);
    desk_.driver().finish(ended);
    for (const auto& each : ended)
        each->announce();
}

time_point client::next_wakeup(time_point now) const {
    time_point next = now + 1h;
    if (!deadlines_.empty()) next = std::min(next, deadlines_.begin()->deadline_);
    if (!later_.empty()) next = std::min(next, later_.begin()->first);
    for (const auto& each : links_) {
        if (const auto& drains = each->draining) {
            next = std::min(next, drains->is_cancelled ? drains->close_at : drains->cancel_at);
            if (somebody_waits() && now < drains->replace_at) {
                next = std::min(next, drains->replace_at);
            }
        }
        if (each->ready || each->busy_since == time_point{}) continue;
        next = std::min<time_point>(next, each->busy_since + target_.connect_timeout);
    }
    if (const auto by = listening_link_is_free_by(); somebody_waits() && now < by) {
        next = std::min(next, by);
    }
    const bool wants_connection = somebody_waits() || lookout_.needs_connection(now);
    if (wants_connection && now < connect_not_before_) next = std::min(next, connect_not_before_);
    if (now < keep_one_not_before_ && wants_reserved_link()) {
        next = std::min(next, keep_one_not_before_);
    }
    if (tasks_wanted() != 1) next = std::min<time_point>(next, now + longest_gathering);
    return std::min(next, lookout_.next_wakeup(now));
}

/// How many operations must come before they are looked at.
std::size_t client::tasks_wanted() const {
    return lists_under_way() < most_lists_under_way ? 1 : worth_a_look;
}

// What connections tell.

/// Asks for the server's clock, and for the tables until they were found.
void client::greet(link& which) {
    which.ready = false;
    which.busy_since = steady_clock::now();
    which.wire->send({tables_.exist ? ask_for_clock() : ask_for_tables(named_tables_)}, false);
}

void client::on_greeted(link& which, const row_list& rows) {
    which.set_server_clock(clock_in(rows, where()));
    sets_settings_ = sets_settings_ || has_unsuitable_settings(rows, where());
    // Another connection may have found them meanwhile.
    if (!tables_.exist) {
        tables_ = tables_in(rows, named_tables_, where());
        qualified_.clear();
    }
    which.ready = true;
}

const statement& client::qualified(const statement& text) {
    if (const auto known = qualified_.find(&text); known != qualified_.end()) return known->second;
    // Complete before it is stored: building it may run out of memory.
    statement complete{.name = {}, .text = with_tables(text.text, tables_.tables)};
    if (!text.name.empty()) complete.name = statement_name(complete.text);
    return qualified_.emplace(&text, std::move(complete)).first->second;
}

void client::end_silent_greetings(time_point now) {
    for (std::size_t i = links_.size(); i-- > 0;) {
        link& each = *links_[i];
        if (each.ready || each.busy_since == time_point{} ||
            now < each.busy_since + target_.connect_timeout) {
            continue;
        }
        on_closed(each, {error_code::network_timeout,
                         where() + " did not complete the connection in time"});
    }
}

void client::on_reply(link& which, const row_list& rows) {
    if (!which.ready) {
        on_greeted(which, rows);
        return;
    }
    // A connection proves itself by an answer: some servers greet and then close.
    which.proved = true;
    failed_connections_ = 0;
    why_not_connected_.reset();
    const auto& all = which.busy_with;
    const bool one_row_each = all.front()->call_.takes_lists;
    if (one_row_each && rows.size() != all.size()) {
        throw lock_error(error_code::internal,
                         where() + " gave an answer that does not fit the question");
    }
    if (which.listens && all.front()->may_free_a_key()) lookout_.look_again_at_all();
    if (all.front()->call_.has_deadline) which.set_server_clock(clock_in(rows, where()));
    static const row none;
    for (std::size_t i = 0; i < all.size(); ++i)
        take_answer(all[i], i < rows.size() ? rows[i] : none, which.busy_since);
    which.busy_with.clear();
    if (which.draining) {
        end_draining(which);
    } else if (!tables_.exist) {
        greet(which);
    }
}

void client::take_answer(const std::shared_ptr<operation>& what, const row& answer,
                         time_point sent_at) {
    if (what->state_ == operation::state::ended) {
        what->answer_late(answer);
        return;
    }
    if (!what->is_unwanted()) {
        if (const auto how = what->wait_after(answer)) {
            let_linger(*what, *how, sent_at);
            return;
        }
    }
    if (what->answer(answer)) {
        remember_end_of_lock(*what);
        set_ended(what);
    } else if (what->is_unwanted()) {
        fail(what, cancelled_by_caller());
    } else {
        what->alone_ = true;
        enqueue(*what, true);
    }
}

void client::on_refused(link& which, const refusal& why) {
    if (!which.ready) {
        on_closed(which, to_lock_error(why, where()));
        return;
    }
    if (remedy_for(why.sqlstate) == remedy::ask) {
        lose(which.busy_with, to_lock_error(why, where()));
    } else {
        refuse(which.busy_with, why);
    }
    which.busy_with.clear();
    if (remedy_for(why.sqlstate) == remedy::again_elsewhere) {
        close_idle_links();  // This one is among them.
    } else if (which.draining) {
        end_draining(which);
    } else if (!tables_.exist) {
        greet(which);
    }
}

/// The server did nothing with these. It may be for one of them: the next time each goes alone.
void client::refuse(const operation_list& all, const refusal& why) {
    const lock_error failure = to_lock_error(why, where());
    const remedy cure = remedy_for(why.sqlstate);
    const unsigned most = cure == remedy::again_elsewhere ? most_moves : most_repetitions;
    if (cure == remedy::again_without_names) named_statements_ = false;
    if (why.sqlstate == sqlstate_of_conflict) sets_settings_ = true;
    if (why.sqlstate == sqlstate_of_lock_shortage) lookout_.lower_all();
    const auto now = steady_clock::now();
    for (const auto& each : boost::adaptors::reverse(all)) {
        if (each->state_ != operation::state::sent) continue;
        const bool was_cut_short = is_statement_timeout(why) &&
                                   now + left_at_the_limit < each->deadline_ &&
                                   ++each->repetitions_ <= most_moves;
        // An operation that was sent in a list may wait for a shorter time than one that was sent
        // alone.
        const bool was_impatient =
            why.sqlstate == sqlstate_of_long_wait && each->call_.takes_lists && !each->alone_;
        each->alone_ = each->alone_ || cure != remedy::again_without_names;
        const bool goes_another_way =
            all.size() > 1 || was_impatient || was_cut_short || each->has_another_way(why.sqlstate);
        const bool may_go_again = goes_another_way || cure == remedy::again ||
                                  (cure != remedy::none && ++each->repetitions_ <= most);
        if (!may_go_again) {
            fail(each, failure);
        } else if (each->is_unwanted()) {
            fail(each, cancelled_by_caller());
        } else if (!goes_another_way && cure == remedy::again && ++each->collisions_ > 1) {
            repeat_later(each, failure);
        } else {
            enqueue(*each, true);
        }
    }
}

/// For an operation that has collided with others more than once. The random pause keeps two
/// operations from colliding again in the same rhythm.
void client::repeat_later(const std::shared_ptr<operation>& what, const lock_error& why) {
    const milliseconds pause{1U << std::min(what->collisions_, 10U)};
    const auto then = steady_clock::now() + with_jitter(std::min(pause, longest_pause));
    if (then >= what->final_deadline_) {
        fail(what, why);
        return;
    }
    what->state_ = operation::state::pausing;
    set_deadline(*what, then);
}

/// The server may have performed them, and has not said.
void client::lose(const operation_list& all, const lock_error& why) {
    for (const auto& each : boost::adaptors::reverse(all)) {
        if (each->state_ != operation::state::sent) continue;
        if (!each->is_unwanted() && ++each->repetitions_ <= most_moves && each->ask_again()) {
            enqueue(*each, true);
        } else {
            fail(each, why);
            each->lose();
        }
    }
}

void client::on_closed(link& which, const lock_error& why) {
    lose(which.busy_with, why);
    const bool was_ready = which.ready;
    const bool had_proved = which.proved;
    const bool was_reserved = which.reserved;
    close(which);
    if (!was_ready && was_reserved) {
        // Nobody depends on it: where it is missing, extensions wait their turn with the others.
        keep_one_not_before_ = steady_clock::now() + net::longest_reconnect_delay;
    } else if (!was_ready) {
        on_no_connection(why);
    } else if (!had_proved && failed_connections_++ > 0) {
        // It greets and closes: not in a busy loop, but each call shall see an attempt.
        connect_not_before_ = steady_clock::now() + net::first_reconnect_delay;
    }
}

void client::on_no_connection(const lock_error& why) {
    const auto now = steady_clock::now();
    const bool is_crowded = why.code() == error_code::rate_limited;
    // Clients that compete for the last connection try at different times.
    const milliseconds pause = net::reconnect_delay(++failed_connections_);
    connect_not_before_ = now + (is_crowded ? with_jitter(pause) : pause);
    why_not_connected_ = why;
    if (is_crowded) crowded_until_ = now + longest_crowd;
    // Where there are others, one of them will be free some time.
    if (std::any_of(links_.begin(), links_.end(),
                    [](const auto& each) { return each->ready && !each->reserved; })) {
        return;
    }
    if (lookout_.needs_connection(now)) lookout_.be_deaf_for(is_crowded ? longest_crowd : pause);
    // A lock ends if it is not extended, and is held for too long if it is not released. A
    // connection may become free before the deadlines of these operations.
    const auto outlasts = [&](const operation& each) {
        return each.persists() || (is_crowded && each.has_priority());
    };
    // Operations that are held back fail first; otherwise they would enter the lanes of the others.
    for (auto each = held_back_.begin(); each != held_back_.end();) {
        operation& next = *each++;
        if (!outlasts(next)) fail(next.self_, why);
    }
    for (auto* const queue : {&waiting_, &lone_, &urgent_, &releases_, &alike_}) {
        for (auto each = queue->begin(); each != queue->end();) {
            operation& next = *each++;
            if (!outlasts(next)) fail(next.self_, why);
        }
    }
}

/// Nobody waits for an answer from it.
void client::close(link& which) {
    if (std::exchange(which.listens, false)) lookout_.lose_connection();
    const auto position = std::find_if(links_.begin(), links_.end(),
                                       [&](const auto& each) { return each.get() == &which; });
    links_.erase(position);
}

void client::close_idle_links() {
    for (std::size_t i = links_.size(); i-- > 0;) {
        if (links_[i]->is_idle()) close(*links_[i]);
    }
}

// Connections whose answer no caller waits for.

/// The connection stays open because the server may still execute the statement or wait for a lock.
/// It would go on after the connection is closed, and each such session counts for its
/// `max_connections`.
void client::drain(link& which, bool may_cancel_now) {
    const auto now = steady_clock::now();
    which.draining = {.replace_at = may_cancel_now ? now : now + patience_before_replacement,
                      .cancel_at = may_cancel_now ? now : now + patience_with_late_answers,
                      .close_at = now + longest_draining};
    if (may_cancel_now) cancel_work(which);
}

/// A cancelled connection is closed, because a late cancel request would hit its next transaction.
void client::end_draining(link& which) {
    const auto in_use = std::count_if(links_.begin(), links_.end(), [&](const auto& each) {
        return each->reserved == which.reserved && !each->draining && !each->listens;
    });
    const auto most = which.reserved ? 1 : pool_size_;
    if (which.draining->is_cancelled ||
        (!which.listens && static_cast<std::size_t>(in_use) >= most)) {
        close(which);
    } else {
        which.draining.reset();
    }
}

void client::look_after_draining(time_point now) {
    for (std::size_t i = links_.size(); i-- > 0;) {
        link& each = *links_[i];
        if (!each.draining) continue;
        if (now >= each.draining->close_at) {
            close(each);
        } else if (now >= each.draining->cancel_at && !each.draining->is_cancelled) {
            cancel_work(each);
        }
    }
}

void client::cancel_work(link& which) {
    which.draining->is_cancelled = true;
    canceller_.start(which.wire->cancel_request());
}

// How operations end.

/// The server did nothing.
void client::fail(const std::shared_ptr<operation>& what, const lock_error& why) {
    if (what->state_ == operation::state::ended) return;
    what->fail(why);
    set_ended(what);
}

/// Ends the operation for its caller now. If it was sent and no other caller waits for the same
/// answer, the connection is drained: it is not used again before the answer has come, so that no
/// other operation receives that answer.
void client::give_up(const std::shared_ptr<operation>& what, const lock_error& why) {
    if (what->state_ == operation::state::ended) return;
    const bool was_sent = what->state_ == operation::state::sent;
    fail(what, why);
    if (!was_sent) return;
    const auto& others = what->sent_on_->busy_with;
    const bool nobody_waits = std::all_of(others.begin(), others.end(), [](const auto& each) {
        return each->state_ == operation::state::ended;
    });
    const bool may_wait_on_server = what->call_.may_wait_for_rows || what->call_.enter != nullptr;
    if (nobody_waits) drain(*what->sent_on_, what->is_unwanted() && may_wait_on_server);
    what->lose();
}

void client::set_ended(const std::shared_ptr<operation>& what) {
    dequeue(*what);
    leave_lane(*what);
    if (what->state_ == operation::state::lingering) lounge_.erase(what->place_in_lounge_);
    what->state_ = operation::state::ended;
    deadlines_.erase(deadlines_.iterator_to(*what));
    --admitted_;
    ended_.push_back(std::exchange(what->self_, nullptr));
}

// How operations wait to hear of a key.

void client::let_linger(operation& what, const operation::patience& how, time_point sent_at) {
    auto prospect = lookout::prospect::cannot_be_told;
    try {
        if (!gives_up_connections(steady_clock::now())) prospect = lookout_.watch(how.key, sent_at);
        if (prospect == lookout::prospect::will_be_told) {
            what.place_in_lounge_ = lounge_.emplace(how.key, &what);
        }
    } catch (const std::bad_alloc&) {
        prospect = lookout::prospect::cannot_be_told;
    }
    leave_lane(what);
    what.alone_ = false;
    switch (prospect) {
        case lookout::prospect::will_be_told:
            what.state_ = operation::state::lingering;
            set_deadline(what, how.until);
            return;
        case lookout::prospect::look_again:
            enqueue(what, false);
            set_deadline(what, what.final_deadline_);
            return;
        case lookout::prospect::cannot_be_told:
            set_ended(what.self_);
            return;
    }
}

/// Sends it again.
void client::resume(operation& what) noexcept {
    lounge_.erase(what.place_in_lounge_);
    enqueue(what, false);
    set_deadline(what, what.final_deadline_);
}

void client::look_again(const std::string& key) {
    for (auto each = lounge_.find(key); each != lounge_.end(); each = lounge_.find(key))
        resume(*each->second);
}

void client::look_again_at_everything() {
    while (!lounge_.empty())
        resume(*lounge_.begin()->second);
}

void client::expect_nothing() {
    while (!lounge_.empty())
        set_ended(lounge_.begin()->second->self_);
}

bool client::still_awaits(const std::string& key) const {
    return lounge_.contains(key);
}

}  // namespace syncguard::postgres
