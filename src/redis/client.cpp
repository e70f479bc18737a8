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

/// While this number of calls is in flight, no other call is sent, and the next batch grows. This
/// number is enough to keep the server busy while the client processes replies; more calls would
/// only make the batches smaller.
constexpr std::size_t max_in_flight_calls = 3;

/// Limits the time for which one call blocks the server's other clients.
constexpr std::size_t max_batch_size = 64;

/// How long a draining connection is kept open for outstanding replies.
constexpr auto drain_timeout = 30s;

/// If more connections than this are draining, the older ones are closed, unless a caller waits for
/// their answers.
constexpr std::size_t max_draining = 8;

/// If an answer is late and the connection has been silent for this time, the client sends on a new
/// connection. A caller's timeout alone does not show that a connection is dead: the timeout may be
/// shorter than the round trip.
constexpr milliseconds max_silence{250};

/// If a server refuses to write, the client resolves the host name again and reconnects, but at
/// most once in this time, since the name may still refer to a replica.
constexpr milliseconds min_failover_interval{1'000};

/// Delay before an operation is repeated during shutdown.
constexpr milliseconds shutdown_retry_delay{100};

/// How many operations one batch should have, if `under_way` operations are in flight in other
/// calls.
std::size_t target_batch_size(std::size_t under_way) {
    return std::min((under_way + max_in_flight_calls - 2) / (max_in_flight_calls - 1),
                    max_batch_size);
}

lock_error cancelled_by_caller() {
    return {error_code::aborted, "the operation was cancelled"};
}

}  // namespace

client::client(options opts)
    : opts_(std::move(opts)),
      server_name_(describe_server(opts_)),
      // NOLINTNEXTLINE(bugprone-throw-keyword-missing): it is made while there is memory for it
      out_of_memory_(error_code::internal, "out of memory on the way to " + server_name_),
      submissions_(*this, server_name_) {}

client::~client() {
    // Intrusive members must be removed before they are destroyed.
    deadlines_.clear();
}

void client::prepare() {
    if (!opts_.tls || tls_) return;
    tls_ = net::make_tls_context({.authorities = opts_.tls->ca_file,
                                  .certificate = opts_.tls->certificate_file,
                                  .private_key = opts_.tls->private_key_file});
}

// Called by any thread.

void client::execute(const std::shared_ptr<script_operation>& op) {
    submissions_.execute(op);
}

void client::submit(const std::shared_ptr<script_operation>& op) {
    submissions_.submit(op);
}

void client::cancel(std::shared_ptr<script_operation> op) noexcept {
    submissions_.cancel(std::move(op));
}

void client::shutdown(std::chrono::milliseconds grace) {
    shutdown_requested_ = true;
    submissions_.shutdown(grace);
}

// Called by the leader.

void client::submit_at(time_point when, std::shared_ptr<script_operation> op) {
    if (shutting_down_)
        when = std::min<time_point>(when, steady_clock::now() + shutdown_retry_delay);
    submissions_.admit(*deferred_.emplace(when, std::move(op))->second);
}

net::io_loop::handler::step_result client::run_once() {
    const auto now = steady_clock::now();
    drain_submissions();
    admit_due(now);
    expire_overdue(now);
    connect_if_needed(now);
    send_waiting();
    close_drained(now);
    deliver_completions();
    return {.wake_at = next_wakeup(now),
            .min_batch = min_batch(),
            .expects_reply = active_ != nullptr && !active_->in_flight.empty()};
}

net::io_loop::handler::receive_result client::try_receive() {
    if (pollable_socket() < 0) return receive_result::needs_event_loop;
    return active_->conn->try_receive() ? receive_result::received : receive_result::none;
}

int client::pollable_socket() const {
    const bool has_single_source = connections_.size() == 1 && active_ != nullptr;
    return has_single_source ? active_->conn->pollable_socket() : -1;
}

bool client::peer_shares_cpu() const {
    return active_ != nullptr && active_->conn->peer_shares_cpu();
}

bool client::has_outstanding_work() const {
    if (!submitted_.empty() || !cancelled_.empty() || queued() > 0 || !deferred_.empty() ||
        !watchers_.empty() || !completed_.empty()) {
        return true;
    }
    return std::any_of(connections_.begin(), connections_.end(),
                       [](const auto& each) { return !each->ready || !each->in_flight.empty(); });
}

void client::drain_submissions() {
    admit_submitted();
    submissions_.loop().drain_submitted(submitted_);
    submissions_.drain_cancelled(cancelled_);
    admit_submitted();
}

/// Admits submitted operations and handles cancellations. If an earlier call ran out of memory,
/// this call continues with the rest.
void client::admit_submitted() {
    while (submitted_taken_ < submitted_.size()) {
        admit(std::static_pointer_cast<script_operation>(submitted_[submitted_taken_]));
        ++submitted_taken_;
    }
    submitted_.clear();
    submitted_taken_ = 0;
    while (!cancelled_.empty()) {
        // If the operation is not admitted yet, `admit` ends it.
        const auto each = std::static_pointer_cast<script_operation>(cancelled_.back());
        if (each->admitted_) abandon(each, cancelled_by_caller());
        cancelled_.pop_back();
    }
}

/// Admits the deferred operations that are due; when shutdown begins, all of them.
void client::admit_due(time_point now) {
    const bool shutdown_begins = shutdown_requested_.exchange(false);
    shutting_down_ = shutting_down_ || shutdown_begins;
    while (!deferred_.empty() && (shutdown_begins || deferred_.begin()->first <= now)) {
        admit(deferred_.begin()->second);
        deferred_.erase(deferred_.begin());
    }
}

void client::admit(const std::shared_ptr<script_operation>& op) {
    // Memory is reserved now, so that `finish` never has to allocate.
    if (const auto most = completed_.size() + admitted_ + 1; completed_.capacity() < most) {
        completed_.reserve(2 * most);
    }
    queue_of(*op).push_back(op);
    // A hint for `insert`: most deadlines are later than all previous ones.
    deadlines_.insert(deadlines_.end(), *op);
    op->admitted_ = true;
    op->number_ = ++last_number_;
    ++admitted_;
    if (op->cancel_requested()) abandon(op, cancelled_by_caller());
}

operation_queue& client::queue_of(const script_operation& op) {
    return op.has_priority() ? priority_ : waiting_;
}

void client::expire_overdue(time_point now) {
    while (!deadlines_.empty() && deadlines_.begin()->deadline_ <= now) {
        const auto late = deadlines_.begin()->shared_from_this();
        if (late->state_ == script_operation::state::watching) {
            if (late->wants_watch(now)) {
                requeue(*late);
            } else {
                watchers_.erase(late->watch_it_);
                finish(late);
            }
        } else if (late->state_ == script_operation::state::sent) {
            // The connection may be dead, or an answer may be lost. No other operation is sent on
            // this connection until all outstanding answers have come, so that no operation waits
            // in vain or receives the answer to another one.
            late->sent_on_->has_late_reply = true;
            abandon(late, {error_code::network_timeout, server_name_ + " did not answer in time"});
        } else if (connect_error_) {
            abandon(late, *connect_error_);
        } else if (active_ != nullptr && active_->ready) {
            abandon(late,
                    {error_code::network_timeout, "too many operations waited for " + server_name_ +
                                                      ": this one was not sent in time"});
        } else {
            abandon(late, {error_code::network_timeout,
                           "no connection to " + server_name_ + " was ready in time"});
        }
    }
    start_draining_if_silent(now);
    remove_done_from_queues();
}

void client::remove_done_from_queues() {
    if (std::exchange(done_in_queue_, 0) == 0) return;
    for (auto* const queue : {&priority_, &waiting_}) {
        std::erase_if(
            *queue, [](const auto& each) { return each->state_ == script_operation::state::done; });
    }
}

void client::connect_if_needed(time_point now) {
    if (active_ != nullptr || queued() == 0 || now < next_connect_at_) return;
    try {
        prepare();
    } catch (const lock_error& error) {
        on_no_connection(error);
        return;
    }
    auto node = std::make_unique<connection_node>(*this);
    node->conn = std::make_shared<connection>(submissions_.loop().context(), opts_,
                                              tls_ ? &*tls_ : nullptr, sockets_, *node);
    connections_.reserve(connections_.size() + 1);
    node->conn->open();
    active_ = node.get();
    connections_.push_back(std::move(node));
    connect_error_.reset();
}

void client::send_waiting() {
    remove_done_from_queues();
    while (batch_is_ready())
        send_batch();
}

/// Whether to send queued operations now. If no call is in flight, they are sent at once. Otherwise
/// the batch must reach its target size: a small call costs the server nearly as much as a large
/// one.
bool client::batch_is_ready() const {
    if (queued() == 0 || active_ == nullptr || !active_->ready) return false;
    const std::size_t calls = active_->in_flight.size();
    if (calls == 0) return true;
    if (active_->must_await_replies()) return false;
    return calls < max_in_flight_calls && queued() >= target_batch_size(active_->operations());
}

/// How many operations must still be submitted before `run_once` can send a batch.
std::size_t client::min_batch() const {
    if (active_ == nullptr) return 1;
    const bool only_an_answer_helps = !active_->ready || active_->must_await_replies() ||
                                      active_->in_flight.size() >= max_in_flight_calls;
    if (only_an_answer_helps) return std::numeric_limits<std::size_t>::max();
    const std::size_t share = target_batch_size(active_->operations());
    return share > queued() ? share - queued() : 1;
}

/// How many operations at the front of `priority_`, and how many at the front of `waiting_`, form
/// the next call.
std::pair<std::ptrdiff_t, std::ptrdiff_t> client::next_batch() const {
    // An operation that is sent alone is sent before operations with priority that were admitted
    // later. Otherwise it would block its queue as long as such operations keep coming.
    const bool waiting_goes_first =
        !waiting_.empty() && waiting_.front()->send_alone_ &&
        (priority_.empty() || waiting_.front()->number_ < priority_.front()->number_);
    if (waiting_goes_first) return {0, 1};
    if (!priority_.empty() && priority_.front()->send_alone_) return {1, 0};
    const auto together = [](const operation_queue& queue, std::size_t most) {
        const auto end = queue.begin() + static_cast<std::ptrdiff_t>(std::min(queue.size(), most));
        return std::find_if(queue.begin(), end,
                            [](const auto& each) { return each->send_alone_; }) -
               queue.begin();
    };
    const auto with_priority = together(priority_, max_batch_size);
    const std::size_t room = max_batch_size - static_cast<std::size_t>(with_priority);
    return {with_priority, together(waiting_, room)};
}

void client::send_batch() {
    const auto [first, second] = next_batch();
    batch call;
    call.reserve(static_cast<std::size_t>(first + second));
    for (const bool acquires : {false, true}) {
        for (const auto& [queue, count] : {std::pair(&priority_, first), {&waiting_, second}}) {
            std::copy_if(queue->begin(), queue->begin() + count, std::back_inserter(call),
                         [&](const auto& each) { return each->args_.acquires == acquires; });
        }
    }
    const auto order = [](const auto& one, const auto& other) {
        return batch_order(one->args_, other->args_);
    };
    // The operations are usually sorted already, and checking is cheaper than sorting.
    if (!std::is_sorted(call.begin(), call.end(), order)) {
        std::stable_sort(call.begin(), call.end(), order);
    }
    batch_args_.clear();
    for (const auto& each : call)
        batch_args_.push_back(&each->args_);
    call_bytes_.clear();
    append_evalsha(call_bytes_, batch_args_, active_->script_is_known);

    if (active_->in_flight.empty()) active_->silent_since = steady_clock::now();
    active_->in_flight.push_back({.operations = std::move(call)});
    priority_.erase(priority_.begin(), priority_.begin() + first);
    waiting_.erase(waiting_.begin(), waiting_.begin() + second);
    active_->script_is_known = true;
    active_->resends_first = false;
    active_->has_late_reply = false;
    const auto now = lease_clock::now();
    for (const auto& each : active_->in_flight.back().operations) {
        each->state_ = script_operation::state::sent;
        each->sent_on_ = active_;
        each->before_send(now);
        if (opts_.command_timeout) {
            const time_point limit = steady_clock::now() + *opts_.command_timeout;
            set_deadline(*each, std::min(each->deadline_, limit));
        }
    }
    try {
        active_->conn->send(call_bytes_);
    } catch (const std::bad_alloc&) {
        // A call that was not sent must not remain in flight: it would get the answer to the next
        // call.
        close(*active_, out_of_memory_);
    }
}

void client::set_deadline(script_operation& op, time_point deadline) {
    deadlines_.erase(deadlines_.iterator_to(op));
    op.deadline_ = deadline;
    deadlines_.insert(op);
}

void client::close_drained(time_point now) {
    while (true) {
        const auto idle =
            std::find_if(connections_.begin(), connections_.end(), [&](const auto& each) {
                return each->draining && (each->in_flight.empty() || now >= each->drain_until);
            });
        if (idle == connections_.end()) return;
        close(**idle, {error_code::network_timeout, server_name_ + " did not answer in time"});
    }
}

void client::deliver_completions() {
    if (completed_.empty()) return;
    // The vector is reused by the next call; a nested call finds `spare_completed_` empty and
    // allocates its own vector.
    auto completed = std::exchange(spare_completed_, {});
    completed.reserve(completed_.capacity());
    completed.swap(completed_);
    for (const auto& each : completed)
        submissions_.retire(*each);
    submissions_.loop().mark_finished(completed, [](std::shared_ptr<script_operation>& each) {
        each->deliver();
        each.reset();
    });
    std::erase(completed, nullptr);
    // Sleeping callers are woken before the handlers of other operations run.
    if (std::any_of(completed.begin(), completed.end(),
                    [](const auto& each) { return each->has_handler(); }))
        submissions_.loop().wake_finished();
    for (const auto& each : completed)
        each->deliver();
    completed.clear();
    spare_completed_ = std::move(completed);
}

time_point client::next_wakeup(time_point now) const {
    time_point next = now + 1h;
    if (!deadlines_.empty()) next = std::min(next, deadlines_.begin()->deadline_);
    if (!deferred_.empty()) next = std::min(next, deferred_.begin()->first);
    if (active_ == nullptr && queued() > 0) next = std::min(next, next_connect_at_);
    if (active_ != nullptr && active_->has_late_reply && active_->must_await_replies()) {
        next = std::min(next, active_->silent_since + max_silence);
    }
    for (const auto& each : connections_) {
        if (each->draining) next = std::min(next, each->drain_until);
    }
    return next;
}

// Callbacks of connections.

void client::on_reply(connection_node& node, const resp::value& reply) {
    if (node.in_flight.empty()) {
        close(node,
              {error_code::internal, server_name_ + " sent an answer that nobody asked for; the "
                                                    "connection was closed"});
        return;
    }
    // Only a reply shows that a connection works: some servers complete the handshake and then
    // close.
    connect_failures_ = 0;
    node.silent_since = steady_clock::now();
    if (node.in_flight.front().setup_replies > 0) {
        --node.in_flight.front().setup_replies;
        // The command is not permitted or not supported: the server will not report changes.
        if (reply.is_error()) node.tracking = connection_node::tracking_state::unsupported;
        return;
    }
    if (node.in_flight.front().watch) {
        on_watch_reply(node, reply);
        node.in_flight.pop_front();
        return;
    }
    // The call remains in flight until all its replies are processed: if memory runs out, its
    // operations fail with the connection.
    const batch& call = node.in_flight.front().operations;
    if (reply.type() == resp::kind::array && reply.size() == call.size() + 1 &&
        reply[0].type() == resp::kind::integer) {
        auto part = reply.begin();
        const unix_time server_time{milliseconds((*part).integer())};
        bool failed_over = false;
        for (const auto& each : call) {
            take_response(each, {*++part, server_time});
            if ((*part).is_error() && may_have_failed_over((*part).text())) failed_over = true;
        }
        if (node.resends_first) fail_overtaken_extensions(call);
        if (failed_over) start_draining_after_failover(node);
    } else if (!reply.is_error()) {
        close(node, {error_code::internal, server_name_ + " gave an answer that does not fit the "
                                                          "question; the connection was closed"});
        return;
    } else if (reply.text().starts_with("NOSCRIPT")) {
        node.script_is_known = false;
        requeue_front(node, false);
    } else if (call.size() > 1 && may_be_one_operation(reply.text())) {
        requeue_front(node, true);
    } else {
        const lock_error error = to_lock_error(reply.text(), server_name_);
        const bool nothing_done = had_no_effect(reply.text());
        for (const auto& each : call) {
            if (nothing_done) {
                fail(each, error);
            } else {
                fail_unknown(each, error);
            }
        }
        if (may_have_failed_over(reply.text())) start_draining_after_failover(node);
    }
    node.in_flight.pop_front();
}

void client::on_push(const resp::value& message) {
    if (watchers_.empty() || message.size() < 2 || message[0].text() != "invalidate") return;
    const auto notify = [this](script_operation& op) {
        op.notified_ = true;
        requeue(op);
    };
    if (message[1].is_null()) {
        // The server has deleted all keys.
        while (!watchers_.empty())
            notify(*watchers_.begin()->second);
        return;
    }
    for (const auto& key : message[1]) {
        for (auto watcher = watchers_.find(key.text()); watcher != watchers_.end();
             watcher = watchers_.find(key.text()))
            notify(*watcher->second);
    }
}

void client::on_closed(connection_node& node, const lock_error& error) {
    const auto position = std::find_if(connections_.begin(), connections_.end(),
                                       [&](const auto& each) { return each.get() == &node; });
    const std::unique_ptr<connection_node> gone = std::move(*position);
    connections_.erase(position);
    if (active_ == gone.get()) {
        active_ = nullptr;
        if (!gone->ready) {
            on_no_connection(error);
        } else if (connect_failures_++ > 0) {
            // The server completes the handshake and then closes the connection, repeatedly. The
            // delay prevents a busy loop; it is short, so that the client still connects once
            // within the time of each call.
            next_connect_at_ = steady_clock::now() + net::first_reconnect_delay;
        }
    }
    for (const auto& call : gone->in_flight) {
        for (const auto& each : call.operations)
            fail_unknown(each, error);
    }
    requeue_watchers_of(*gone);
}

void client::on_no_connection(const lock_error& error) {
    next_connect_at_ = steady_clock::now() + net::reconnect_delay(++connect_failures_);
    connect_error_ = error;
    for (const auto* const queue : {&priority_, &waiting_}) {
        for (const auto& each : *queue) {
            if (!each->is_background() && !each->has_watched_) fail(each, error);
        }
    }
    remove_done_from_queues();
}

void client::close(connection_node& node, const lock_error& error) {
    node.conn->close();
    on_closed(node, error);
}

bool client::has_waiting_caller(const std::deque<in_flight_call>& calls) {
    return std::any_of(calls.begin(), calls.end(), [](const in_flight_call& each) {
        return std::any_of(each.operations.begin(), each.operations.end(), [](const auto& op) {
            return op->state_ == script_operation::state::sent;
        });
    });
}

/// Stops sending on the connection, and keeps it open for outstanding replies.
void client::start_draining(connection_node& node) {
    node.draining = true;
    node.drain_until = steady_clock::now() + drain_timeout;
    if (active_ == &node) active_ = nullptr;
    requeue_watchers_of(node);
    std::size_t draining = 0;
    for (const auto& each : boost::adaptors::reverse(connections_)) {
        if (!each->draining || ++draining <= max_draining) continue;
        if (!has_waiting_caller(each->in_flight)) each->drain_until = {};
    }
}

/// While an answer is late, queued operations wait. After a silence of `max_silence` the connection
/// is drained, and operations are sent on another one.
void client::start_draining_if_silent(time_point now) {
    if (active_ == nullptr || !active_->has_late_reply || !active_->must_await_replies()) return;
    if (now - active_->silent_since >= max_silence) start_draining(*active_);
}

/// After a failover the host name may refer to another server: each new connection resolves it
/// again.
void client::start_draining_after_failover(connection_node& node) {
    if (&node != active_) return;
    const auto now = steady_clock::now();
    if (now < no_failover_before_) return;
    no_failover_before_ = now + min_failover_interval;
    start_draining(node);
}

/// The server did not execute the oldest call: its operations are queued again, before all
/// operations admitted after them.
void client::requeue_front(connection_node& node, bool alone) {
    node.resends_first = true;
    for (const auto& each : node.in_flight.front().operations) {
        if (each->state_ != script_operation::state::sent) continue;
        auto& queue = queue_of(*each);
        queue.insert(
            std::find_if(queue.begin(), queue.end(),
                         [&](const auto& other) { return other->number_ > each->number_; }),
            each);
        each->state_ = script_operation::state::queued;
        each->send_alone_ = each->send_alone_ || alone;
    }
}

/// Extensions of a lock must be executed in the order of their admission. So a refused extension
/// fails if a later one of the same lock has been executed.
void client::fail_overtaken_extensions(const batch& executed) {
    for (const auto& refused : priority_) {
        const bool is_overtaken =
            std::any_of(executed.begin(), executed.end(), [&](const auto& each) {
                return each->number_ > refused->number_ &&
                       extend_same_lock(each->args_, refused->args_);
            });
        if (is_overtaken) {
            fail(refused,
                 {error_code::service_unavailable,
                  server_name_ + " refused to extend a lock and then executed a later extension "
                                 "of it; try again"});
        }
    }
}

// Completion of operations.

void client::take_response(const std::shared_ptr<script_operation>& op, const script_reply& reply) {
    if (op->state_ == script_operation::state::abandoned) {
        op->on_late_response(reply);
        return;
    }
    if (op->cancel_requested()) {
        fail(op, cancelled_by_caller());
        op->on_late_response(reply);
        return;
    }
    if (op->sent_on_->tracking != connection_node::tracking_state::unsupported) {
        const bool notified = std::exchange(op->notified_, false);
        if (auto watch_req = op->watch_after(reply, notified)) {
            if (watch_req->tracks_key) {
                send_watch(op, *std::move(watch_req));
            } else {
                start_watch(op, *std::move(watch_req));
            }
            return;
        }
    }
    op->on_response(reply);
    finish(op);
}

/// Ends the operation with an error for its caller, unless it has ended. `abandon` and
/// `fail_unknown` also handle an operation that the server may have performed.
void client::fail(const std::shared_ptr<script_operation>& op, const lock_error& error) {
    if (op->state_ == script_operation::state::done ||
        op->state_ == script_operation::state::abandoned) {
        return;
    }
    if (op->state_ == script_operation::state::queued) ++done_in_queue_;
    if (op->state_ == script_operation::state::watching) watchers_.erase(op->watch_it_);
    op->on_error(error);
    finish(op);
}

/// Ends the operation for its caller now. If it was sent, its reply may still come.
void client::abandon(const std::shared_ptr<script_operation>& op, const lock_error& error) {
    const bool was_sent = op->state_ == script_operation::state::sent;
    fail(op, error);
    if (!was_sent) return;
    op->state_ = script_operation::state::abandoned;
    op->on_abandoned();
}

/// Fails an operation to which no reply will come, although the server may have performed it.
void client::fail_unknown(const std::shared_ptr<script_operation>& op, const lock_error& error) {
    if (op->state_ == script_operation::state::done) return;
    fail(op, error);
    op->on_outcome_unknown();
}

void client::finish(const std::shared_ptr<script_operation>& op) {
    op->state_ = script_operation::state::done;
    deadlines_.erase(deadlines_.iterator_to(*op));
    --admitted_;
    completed_.push_back(op);
}

// Operations that watch a key.

/// Asks the server to report changes of the key, and asks whether the key still exists. With OPTIN
/// the server tracks only keys for which the client asks; otherwise it would report every lock that
/// is acquired or released.
void client::send_watch(const std::shared_ptr<script_operation>& op,
                        script_operation::watch_request watch_req) {
    connection_node& node = *op->sent_on_;
    std::string commands;
    const auto append = [&](std::initializer_list<std::string_view> words) {
        resp::append_command_header(commands, words.size());
        for (const auto word : words)
            resp::append_bulk(commands, word);
    };
    unsigned setup_replies = 1;
    if (node.tracking == connection_node::tracking_state::off) {
        append({"CLIENT", "TRACKING", "ON", "OPTIN"});
        ++setup_replies;
    }
    append({"CLIENT", "CACHING", "YES"});
    append({"EXISTS", watch_req.key});
    node.in_flight.push_back(
        {.operations = {op}, .watch = std::move(watch_req), .setup_replies = setup_replies});
    node.tracking = connection_node::tracking_state::on;
    node.conn->send(commands);
}

void client::on_watch_reply(connection_node& node, const resp::value& reply) {
    in_flight_call& call = node.in_flight.front();
    const auto& op = call.operations.front();
    if (op->state_ != script_operation::state::sent) return;
    const bool is_there = reply.type() == resp::kind::integer && reply.integer() == 1;
    if (node.tracking == connection_node::tracking_state::unsupported || reply.is_error()) {
        finish(op);
    } else if (is_there) {
        start_watch(op, *std::move(call.watch));
    } else {
        queue_of(*op).push_back(op);
        op->state_ = script_operation::state::queued;
        set_deadline(*op, op->final_deadline_);
    }
}

void client::start_watch(const std::shared_ptr<script_operation>& op,
                         script_operation::watch_request watch_req) {
    op->watch_it_ = watchers_.emplace(std::move(watch_req.key), op);
    op->state_ = script_operation::state::watching;
    op->has_watched_ = true;
    set_deadline(*op, watch_req.until);
}

/// Queues operations to be sent again if they watch a key on this connection: the server will not
/// report changes on it any more.
void client::requeue_watchers_of(const connection_node& node) {
    for (auto each = watchers_.begin(); each != watchers_.end();) {
        script_operation& op = *(each++)->second;
        if (op.sent_on_ == &node) requeue(op);
    }
}

/// Queues a watching operation to be sent again.
void client::requeue(script_operation& op) {
    queue_of(op).push_back(op.shared_from_this());
    watchers_.erase(op.watch_it_);
    op.state_ = script_operation::state::queued;
    set_deadline(op, op.final_deadline_);
}

}  // namespace syncguard::redis
