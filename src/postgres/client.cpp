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

/// With this number of batches in flight, further operations wait for the next batch: a large batch
/// costs the server little more than a small one.
constexpr std::size_t max_in_flight_batches = 4;
constexpr std::size_t max_batch_size = 32;
/// A batch that takes longer waits for another transaction on the server, and does not count.
constexpr milliseconds usual_batch_time{100};
/// How many queued operations are scanned for a batch.
constexpr std::size_t max_batch_scan = 128;
/// How long a few operations may wait for a batch meanwhile.
constexpr milliseconds max_batch_delay{2};
constexpr std::size_t min_batch_when_busy = 16;

/// How often an operation is sent again without prepared statements.
constexpr unsigned max_retries = 10;
/// How often an operation is sent again after its connection broke, or if it needs a new
/// connection.
constexpr unsigned max_reconnects = 2;
/// The longest pause before an operation is repeated after a conflict with others. The first time
/// there is no pause; then it doubles each time.
constexpr milliseconds max_retry_delay{100};

/// The error of a statement that waited for as long as `lock_timeout` permits.
constexpr std::string_view sqlstate_lock_timeout = "55P03";

/// If its wall clock was set, the server may end a statement by `statement_timeout` too early: with
/// more time left than this. Messages in other languages than English are not recognised; then the
/// call fails.
constexpr milliseconds early_timeout_margin{50};
bool is_statement_timeout(const server_error& error) {
    return error.sqlstate == "57014" &&
           error.message.find("statement timeout") != std::string::npos;
}

/// How long the client waits for the answer to a cancelled operation. Usually it comes soon, and
/// then nothing has to be cleaned up.
constexpr milliseconds cancel_grace{100};

/// After this time without the answer of an abandoned operation, the server is asked to stop; after
/// `drain_timeout` the connection is closed. It is not closed at once, because the server would
/// continue to wait after the connection was closed.
constexpr milliseconds late_reply_cancel_delay{1'000};
/// After this time another connection may be opened in place of one whose answer is abandoned. The
/// delay keeps callers with timeouts shorter than a round trip from opening a connection each.
constexpr milliseconds replacement_delay{200};
constexpr milliseconds drain_timeout{5'000};
/// How long the destructor of a client waits until its last cancel requests are sent.
constexpr milliseconds cancel_request_grace{200};

/// How long the client assumes that the server has no connection left.
constexpr milliseconds connection_limit_backoff{10'000};
/// Up to this size, `lock_ends_` is not searched for ended locks.
constexpr std::size_t min_tracked_lock_ends = 64;
/// How long an operation waits for the connection of the release listener before another is opened.
constexpr milliseconds listening_connection_wait{500};

/// Delay before an operation is repeated during shutdown.
constexpr milliseconds shutdown_retry_delay{100};

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

bool query_operation::may_free_a_key() const noexcept {
    return query_.may_wait_for_rows && (query_.key_lock_sql == nullptr || query_.needs_key_lock);
}

bool query_operation::needs_lane() const noexcept {
    if (send_alone_ || query_.needs_key_lock)
        return query_.key_lock_sql != nullptr || query_.may_wait_for_rows;
    return query_.may_wait_for_rows && !query_.is_batchable;
}

lane query_operation::its_lane() const noexcept {
    if (query_.key_lock_sql != nullptr) return {.of_key = true, .name = query_.key_lock};
    return {.of_key = false, .name = query_.parameters.front()};
}

/// Within a lane, background releases are sent before operations that wait for the key.
bool query_operation::lane_order::operator()(const query_operation& a,
                                             const query_operation& b) const noexcept {
    const auto rank = [](const query_operation& each) {
        return std::tuple(each.its_lane(), !each.is_background(), each.sequence_);
    };
    return rank(a) < rank(b);
}
bool query_operation::lane_order::operator()(const query_operation& a,
                                             const lane& b) const noexcept {
    return a.its_lane() < b;
}
bool query_operation::lane_order::operator()(const lane& a,
                                             const query_operation& b) const noexcept {
    return a < b.its_lane();
}

bool query_operation::prepare_fallback(std::string_view sqlstate) noexcept {
    const bool falls_back = query_.fallback_after == query::refusals::all || is_shortage(sqlstate);
    if (query_.fallback == nullptr || !falls_back) return false;
    query_.sql = std::exchange(query_.fallback, nullptr);
    return true;
}

client::client(const options& opts)
    : address_(opts),
      named_tables_(checked_tables(opts.tables)),
      pool_size_(opts.pool_size),
      statement_timeout_(bounded(opts.statement_timeout)),
      submissions_(*this, server_name()),
      release_listener_(*this) {}

client::~client() {
    // Intrusive members must be removed before they are destroyed.
    for (auto* const each : {&queue_, &lane_queue_, &priority_, &releases_, &batchable_})
        each->clear();
    lanes_.clear();
    held_back_.clear();
    deadlines_.clear_and_dispose([](query_operation* each) { each->self_.reset(); });
}

// Called by any thread.

void client::execute(const std::shared_ptr<query_operation>& op) {
    submissions_.execute(op);
}

void client::submit(const std::shared_ptr<query_operation>& op) {
    submissions_.submit(op);
}

void client::cancel(std::shared_ptr<query_operation> op) noexcept {
    submissions_.cancel(std::move(op));
}

void client::shutdown(std::chrono::milliseconds grace) {
    shutdown_requested_ = true;
    submissions_.shutdown(grace);
    // No thread runs the event loop any more.
    for (const auto& each : connections_) {
        if (each->draining && !each->draining->is_cancelled) cancel_work(*each);
    }
    canceller_.finish(cancel_request_grace);
}

// Called by the leader.

void client::submit_at(time_point when, std::shared_ptr<query_operation> op) {
    if (shutting_down_)
        when = std::min<time_point>(when, steady_clock::now() + shutdown_retry_delay);
    submissions_.admit(*deferred_.emplace(when, std::move(op))->second);
}

net::io_loop::handler::step_result client::run_once() {
    const auto now = steady_clock::now();
    drain_submissions();
    admit_due(now);
    expire_overdue(now);
    expire_handshakes(now);
    expire_draining(now);
    release_listener_.run_once(now);
    maintain_listening_connection(now);
    send_waiting();
    connect_if_needed(now);
    deliver_completions();
    return {.wake_at = next_wakeup(now), .min_batch = min_batch()};
}

bool client::has_outstanding_work() const {
    if (!submitted_.empty() || !cancelled_.empty() || admitted_ > 0 || !deferred_.empty() ||
        !completed_.empty() || release_listener_.has_outstanding_work()) {
        return true;
    }
    return std::any_of(connections_.begin(), connections_.end(),
                       [](const auto& each) { return !each->is_idle(); });
}

void client::drain_submissions() {
    admit_submitted();
    submissions_.loop().drain_submitted(submitted_);
    submissions_.drain_cancelled(cancelled_);
    admit_submitted();
}

/// Continues where an earlier call ran out of memory.
void client::admit_submitted() {
    while (submitted_taken_ < submitted_.size()) {
        admit(std::static_pointer_cast<query_operation>(submitted_[submitted_taken_]));
        ++submitted_taken_;
    }
    submitted_.clear();
    submitted_taken_ = 0;
    while (!cancelled_.empty()) {
        // An operation that is not admitted yet is ended at its admission.
        const auto each = std::static_pointer_cast<query_operation>(cancelled_.back());
        if (each->self_) cancel_admitted(each);
        cancelled_.pop_back();
    }
}

/// Admits deferred operations that are due; at shutdown all of them.
void client::admit_due(time_point now) {
    const bool shutdown_begins = shutdown_requested_.exchange(false);
    shutting_down_ = shutting_down_ || shutdown_begins;
    while (!deferred_.empty() && (shutdown_begins || deferred_.begin()->first <= now)) {
        admit(deferred_.begin()->second);
        deferred_.erase(deferred_.begin());
    }
}

void client::admit(const std::shared_ptr<query_operation>& op) {
    // So that `finish` never has to allocate.
    if (const auto max_count = completed_.size() + admitted_ + 1;
        completed_.capacity() < max_count) {
        completed_.reserve(2 * max_count);
    }
    op->sequence_ = ++last_sequence_;
    saw_priority_ = saw_priority_ || op->uses_reserved_connection();
    enqueue(*op, false);
    deadlines_.insert(*op);
    op->self_ = op;
    ++admitted_;
    if (op->cancel_requested()) cancel_admitted(op);
}

void client::cancel_admitted(const std::shared_ptr<query_operation>& op) {
    if (op->state_ == query_operation::state::sent) {
        shorten_deadline(*op, steady_clock::now() + cancel_grace);
    } else {
        fail(op, cancelled_by_caller());
    }
}

void client::enqueue(query_operation& op, bool first) noexcept {
    op.state_ = query_operation::state::queued;
    if (enter_lane(op)) push_to_queue(op, first);
}

void client::push_to_queue(query_operation& op, bool first) noexcept {
    auto& queue = queue_of(op);
    queue.insert(first ? queue.begin() : queue.end(), op);
    op.queued_in_ = &queue;
}

void client::dequeue(query_operation& op) noexcept {
    if (op.queued_in_ == nullptr) return;
    op.queued_in_->erase(op.queued_in_->iterator_to(op));
    op.queued_in_ = nullptr;
}

/// False if another operation is in the lane of `op`, which is then held back until the other
/// operation has left the lane.
bool client::enter_lane(query_operation& op) noexcept {
    if (op.lane_hook::is_linked() || !op.needs_lane()) return true;
    if (lanes_.insert(op).second) return true;
    held_back_.insert(op);
    op.is_held_back_ = true;
    return false;
}

void client::leave_lane(query_operation& op) noexcept {
    if (!op.lane_hook::is_linked()) return;
    if (std::exchange(op.is_held_back_, false)) {
        held_back_.erase(held_back_.iterator_to(op));
        return;
    }
    lanes_.erase(lanes_.iterator_to(op));
    const auto next = held_back_.find(op.its_lane(), query_operation::lane_order());
    if (next == held_back_.end()) return;
    query_operation& successor = *next;
    held_back_.erase(next);
    successor.is_held_back_ = false;
    lanes_.insert(successor);
    push_to_queue(successor, true);
}

operation_queue& client::queue_of(const query_operation& op) {
    if (op.uses_reserved_connection()) return priority_;
    if (op.needs_lane()) return lane_queue_;
    if (!op.query_.is_batchable || op.send_alone_) return queue_;
    return op.has_priority() ? releases_ : batchable_;
}

void client::expire_overdue(time_point now) {
    while (!deadlines_.empty() && deadlines_.begin()->deadline_ <= now) {
        const auto late = deadlines_.begin()->shared_from_this();
        if (late->state_ == query_operation::state::watching) {
            if (late->wants_watch(now)) {
                requeue(*late);
            } else {
                finish(late);
            }
        } else if (late->state_ == query_operation::state::backing_off) {
            enqueue(*late, false);
            set_deadline(*late, late->final_deadline_);
        } else if (late->cancel_requested()) {
            abandon(late, cancelled_by_caller());
        } else if (late->is_held_back_) {
            abandon(late, {error_code::network_timeout,
                           "others who use the same key were in the way for too long on " +
                               server_name()});
        } else if (late->state_ == query_operation::state::sent) {
            abandon(late, {error_code::network_timeout, server_name() + " did not answer in time"});
        } else if (connect_error_) {
            abandon(late, *connect_error_);
        } else {
            const bool connected = std::any_of(connections_.begin(), connections_.end(),
                                               [](const auto& each) { return each->ready; });
            abandon(late, {error_code::network_timeout,
                           connected ? "no connection to " + server_name() + " was free in time"
                                     : server_name() + " did not complete the connection in time"});
        }
    }
}

// Choice of the next operation, and of its connection.

bool client::has_queued() const {
    return !queue_.empty() || !lane_queue_.empty() || !priority_.empty() || !releases_.empty() ||
           !batchable_.empty();
}

/// The queue whose front is sent next; null if none may be sent. Extensions and releases are sent
/// first, other operations in the order of their arrival.
operation_queue* client::next_queue(bool may_wait_for_long) {
    if (!priority_.empty()) return &priority_;
    const bool may_send_batch = in_flight_batches() < max_in_flight_batches;
    if (!releases_.empty() && may_send_batch) return &releases_;
    operation_queue* next = nullptr;
    const auto consider = [&](operation_queue& queue) {
        if (queue.empty()) return;
        if (next == nullptr || queue.front().sequence_ < next->front().sequence_) next = &queue;
    };
    if (may_send_batch) consider(batchable_);
    consider(queue_);
    if (may_wait_for_long) consider(lane_queue_);
    return next;
}

/// Whether every connection of the pool is in use by an operation that may wait on the server for
/// long.
bool client::pool_is_blocked() const {
    const auto waiting =
        std::count_if(connections_.begin(), connections_.end(), [](const auto& each) {
            return !each->reserved_for_priority && !each->listens && !each->in_flight.empty() &&
                   each->in_flight.front()->needs_lane();
        });
    return static_cast<std::size_t>(waiting) >= pool_size_;
}

bool client::wants_reserved_connection() const {
    if (saw_priority_) return true;
    const bool others_wait = !queue_.empty() || !releases_.empty() || !batchable_.empty();
    return others_wait && pool_is_blocked();
}

std::size_t client::in_flight_batches() const {
    const auto stuck_since = steady_clock::now() - usual_batch_time;
    return static_cast<std::size_t>(
        std::count_if(connections_.begin(), connections_.end(), [&](const auto& each) {
            return each->is_batch && !each->in_flight.empty() && each->sent_at > stuck_since;
        }));
}

connection_node* client::idle_connection(bool reserved_for_priority) const {
    // Earlier connections are preferred, so that later ones become idle.
    const auto found =
        std::find_if(connections_.begin(), connections_.end(), [&](const auto& each) {
            return each->is_idle() && each->reserved_for_priority == reserved_for_priority &&
                   !each->listens;
        });
    return found == connections_.end() ? nullptr : found->get();
}

/// An idle connection that the server has not closed: after sending on a closed one, the outcome
/// would be unknown.
connection_node* client::usable_connection(bool reserved_for_priority) {
    while (connection_node* const idle = idle_connection(reserved_for_priority)) {
        if (idle->conn->is_alive()) return idle;
    }
    return nullptr;
}

// The connection of the release listener. A client that only waits for a lock has no other
// connection.

connection_node* client::listening_connection() const {
    const auto found = std::find_if(connections_.begin(), connections_.end(),
                                    [](const auto& each) { return each->listens; });
    return found == connections_.end() ? nullptr : found->get();
}

/// A transaction on it delays notifications. If operations watch keys, it is not used for
/// transactions that may take long, unless no other connection can be opened.
bool client::may_use_listening_connection(const query_operation& next) const {
    return watchers_.empty() || !next.needs_lane() || connect_error_;
}

/// Also null if the pool has another connection.
connection_node* client::usable_listening_connection(const query_operation& next) {
    connection_node* const listening = listening_connection();
    const bool has_others =
        std::any_of(connections_.begin(), connections_.end(), [](const auto& each) {
            return each->ready && !each->reserved_for_priority && !each->listens && !each->draining;
        });
    if (listening == nullptr || !listening->is_idle() || has_others) return nullptr;
    if (!may_use_listening_connection(next)) return nullptr;
    return listening->conn->is_alive() ? listening : nullptr;
}

/// Until when an operation waits for the listener's connection; a past time if there is none.
time_point client::listening_connection_free_at() const {
    const connection_node* const listening = listening_connection();
    if (listening == nullptr || listening->draining) return {};
    return release_listener_.sent_at().value_or(listening->sent_at) + listening_connection_wait;
}

std::shared_ptr<connection> client::connection_for_listener() {
    // After an out-of-memory error the previous connection may not have been closed yet.
    if (listening_connection() != nullptr) return nullptr;
    connection_node* const idle = usable_connection(false);
    if (idle == nullptr) return nullptr;
    idle->listens = true;
    return idle->conn;
}

bool client::connection_is_free() const {
    const connection_node* const listening = listening_connection();
    return listening != nullptr && listening->is_idle();
}

void client::maintain_listening_connection(time_point now) {
    if (yields_connections(now)) {
        if (connection_is_free()) release_listener_.disable_for(connection_limit_backoff);
        if (admitted_ == 0) close_idle_connections();
    }
    connection_node* const listening = listening_connection();
    if (listening == nullptr || release_listener_.has_connection()) return;
    listening->listens = false;
    on_closed(*listening, {error_code::service_unavailable,
                           "the connection to " + server_name() + " was closed"});
}

/// Whether the server has no connection left and this client holds no lock. Such a client waits
/// without a connection, because other clients may need one to extend their locks.
bool client::yields_connections(time_point now) {
    if (now >= connection_limit_until_) return false;
    while (!lock_ends_.empty() && lock_ends_.begin()->second <= now)
        lock_ends_.erase(lock_ends_.begin());
    return lock_ends_.empty();
}

void client::remember_end_of_lock(const query_operation& op) noexcept {
    const auto now = steady_clock::now();
    const auto lock_end = op.known_end_of_lock(now);
    if (!lock_end) return;
    if (lock_end->at <= now) {
        lock_ends_.erase(lock_end->id);
        return;
    }
    if (lock_ends_.size() >= max_lock_ends_) {
        std::erase_if(lock_ends_, [&](const auto& each) { return each.second <= now; });
        max_lock_ends_ = std::max(min_tracked_lock_ends, 2 * lock_ends_.size());
    }
    try {
        auto& end = lock_ends_[lock_end->id];
        end = std::max(end, lock_end->at);
    } catch (
        const std::bad_alloc&) {  // then the client may yield connections although it holds a lock
    }
}

void client::send_waiting() {
    if (!priority_.empty()) {
        if (connection_node* const kept = usable_connection(true)) send(*kept, priority_);
    }
    while (auto* const queue = next_queue()) {
        connection_node* idle = usable_connection(false);
        if (idle == nullptr) idle = usable_listening_connection(queue->front());
        if (idle == nullptr) break;
        send(*idle, *queue);
    }
    if (!pool_is_blocked()) return;
    // The reserved connection takes only operations that do not wait on the server for long, so
    // that the next extension is not delayed for long.
    if (auto* const queue = next_queue(false)) {
        if (connection_node* const kept = usable_connection(true)) send(*kept, *queue);
    }
}

void client::send(connection_node& node, operation_queue& from) {
    std::vector<timed_query> queries;
    queries.reserve(max_batch_size);
    node.in_flight.reserve(max_batch_size);
    node.in_flight.push_back(from.front().self_);
    dequeue(from.front());
    const bool alone = node.in_flight.front()->send_alone_;
    node.is_batch = &from == &batchable_ || &from == &releases_;
    node.sent_at = steady_clock::now();
    if (node.is_batch) fill_batch(node, from);
    for (const auto& each : node.in_flight) {
        each->state_ = query_operation::state::sent;
        each->sent_on_ = &node;
        if (statement_timeout_) shorten_deadline(*each, node.sent_at + *statement_timeout_);
        queries.push_back({&each->query_, node.server_time(each->deadline_)});
        each->before_send(queries.back().deadline);
    }
    const auto time_left =
        std::chrono::ceil<milliseconds>(node.in_flight.front()->deadline_ - node.sent_at);
    transaction together;
    try {
        together = build_transaction(queries, alone, time_left);
        if (sets_settings_) {
            together.insert(together.begin(), {{&settings_.isolation, {}}, {&settings_.time, {}}});
        }
        for (auto& each : together)
            each.sql = &qualified(*each.sql);
    } catch (const std::bad_alloc&) {
        for (const auto& each : boost::adaptors::reverse(node.in_flight))
            enqueue(*each, true);
        node.in_flight.clear();
        throw;
    }
    node.conn->send(together, use_prepared_);
}

/// Adds operations with the same statement and different keys.
void client::fill_batch(connection_node& node, operation_queue& from) {
    auto& batch = node.in_flight;
    const statement* const kind = batch.front()->query_.sql;
    const auto fits = [&](const query_operation& op) {
        const auto is_same = [&](const auto& other) {
            return other->query_.parameters.front() == op.query_.parameters.front();
        };
        return batch.size() < max_batch_size && op.query_.sql == kind &&
               std::none_of(batch.begin(), batch.end(), is_same);
    };
    auto each = from.begin();
    for (std::size_t looked = 0; looked < max_batch_scan && each != from.end(); ++looked) {
        query_operation& next = *each++;
        if (!fits(next)) continue;
        batch.push_back(next.self_);
        dequeue(next);
    }
}

void client::set_deadline(query_operation& op, time_point deadline) {
    deadlines_.erase(deadlines_.iterator_to(op));
    op.deadline_ = deadline;
    deadlines_.insert(op);
}

void client::shorten_deadline(query_operation& op, time_point deadline) {
    if (deadline < op.deadline_) set_deadline(op, deadline);
}

void client::connect_if_needed(time_point now) {
    if (now < next_connect_at_) return;
    // Connections that have been draining for a while do not count, up to the size of the pool.
    std::size_t connections = 0;
    std::size_t coming = 0;
    std::size_t draining = 0;
    std::size_t kept = 0;
    std::size_t kept_and_draining = 0;
    for (const auto& each : connections_) {
        if (each->listens) continue;
        ++(each->reserved_for_priority ? kept : connections);
        if (each->draining && now >= each->draining->replace_at) {
            ++(each->reserved_for_priority ? kept_and_draining : draining);
        }
        if (!each->reserved_for_priority && !each->ready) ++coming;
    }
    if (wants_reserved_connection() && kept < 1 + std::min<std::size_t>(kept_and_draining, 1) &&
        now >= next_reserved_connect_at_) {
        connect(true);
    }
    const std::size_t max_connections = pool_size_ + std::min(draining, pool_size_);
    const std::size_t lists =
        max_in_flight_batches - std::min(max_in_flight_batches, in_flight_batches());
    std::size_t wanted = queue_.size() + lane_queue_.size() + priority_.size() +
                         std::min(releases_.size() + batchable_.size(), lists);
    if (wanted == 1 && connections == 0 && now < listening_connection_free_at() &&
        may_use_listening_connection(next_queue()->front())) {
        wanted = 0;
    }
    if (release_listener_.needs_connection(now)) ++wanted;
    while (connections < max_connections && coming < wanted) {
        connect(false);
        ++connections;
        ++coming;
    }
}

void client::connect(bool reserved_for_priority) {
    auto node = std::make_unique<connection_node>(*this, reserved_for_priority);
    node->conn =
        std::make_shared<connection>(submissions_.loop().context(), address_, sockets_, *node);
    connections_.reserve(connections_.size() + 1);
    node->conn->open();
    connections_.push_back(std::move(node));
}

void client::deliver_completions() {
    if (completed_.empty()) return;
    std::vector<std::shared_ptr<query_operation>> completed;
    completed.reserve(completed_.capacity());
    completed.swap(completed_);
    for (const auto& each : completed)
        submissions_.retire(*each);
    submissions_.loop().finish(completed);
    for (const auto& each : completed)
        each->deliver();
}

time_point client::next_wakeup(time_point now) const {
    time_point next = now + 1h;
    if (!deadlines_.empty()) next = std::min(next, deadlines_.begin()->deadline_);
    if (!deferred_.empty()) next = std::min(next, deferred_.begin()->first);
    for (const auto& each : connections_) {
        if (const auto& drains = each->draining) {
            next = std::min(next, drains->is_cancelled ? drains->close_at : drains->cancel_at);
            if (has_queued() && now < drains->replace_at) {
                next = std::min(next, drains->replace_at);
            }
        }
        if (each->ready || each->sent_at == time_point{}) continue;
        next = std::min<time_point>(next, each->sent_at + address_.connect_timeout);
    }
    if (const auto free_at = listening_connection_free_at(); has_queued() && now < free_at) {
        next = std::min(next, free_at);
    }
    const bool wants_connection = has_queued() || release_listener_.needs_connection(now);
    if (wants_connection && now < next_connect_at_) next = std::min(next, next_connect_at_);
    if (now < next_reserved_connect_at_ && wants_reserved_connection()) {
        next = std::min(next, next_reserved_connect_at_);
    }
    if (min_batch() != 1) next = std::min<time_point>(next, now + max_batch_delay);
    return std::min(next, release_listener_.next_wakeup(now));
}

/// How many submitted operations `run_once` waits for.
std::size_t client::min_batch() const {
    return in_flight_batches() < max_in_flight_batches ? 1 : min_batch_when_busy;
}

// Callbacks of connections.

/// Asks for the server's clock, and for the tables until they are found.
void client::handshake(connection_node& node) {
    node.ready = false;
    node.sent_at = steady_clock::now();
    node.conn->send({tables_.exist ? ask_for_clock() : ask_for_tables(named_tables_)}, false);
}

void client::on_handshake_reply(connection_node& node, const result_rows& rows) {
    node.set_server_clock(clock_in(rows, server_name()));
    sets_settings_ = sets_settings_ || has_unsuitable_settings(rows, server_name());
    // Another connection may have found the tables meanwhile.
    if (!tables_.exist) {
        tables_ = tables_in(rows, named_tables_, server_name());
        qualified_.clear();
    }
    node.ready = true;
}

const statement& client::qualified(const statement& text) {
    if (const auto found = qualified_.find(&text); found != qualified_.end()) return found->second;
    // Built completely before it is stored, because building it may run out of memory.
    statement complete{.name = {}, .text = with_tables(text.text, tables_.tables)};
    if (!text.name.empty()) complete.name = statement_name(complete.text);
    return qualified_.emplace(&text, std::move(complete)).first->second;
}

void client::expire_handshakes(time_point now) {
    for (std::size_t i = connections_.size(); i-- > 0;) {
        connection_node& each = *connections_[i];
        if (each.ready || each.sent_at == time_point{} ||
            now < each.sent_at + address_.connect_timeout) {
            continue;
        }
        on_closed(each, {error_code::network_timeout,
                         server_name() + " did not complete the connection in time"});
    }
}

void client::on_reply(connection_node& node, const result_rows& rows) {
    if (!node.ready) {
        on_handshake_reply(node, rows);
        return;
    }
    // Only a reply shows that a connection works: some servers complete the handshake and then
    // close.
    node.has_replied = true;
    connect_failures_ = 0;
    connect_error_.reset();
    const auto& all = node.in_flight;
    const bool one_row_each = all.front()->query_.is_batchable;
    if (one_row_each && rows.size() != all.size()) {
        throw lock_error(error_code::internal,
                         server_name() + " gave an answer that does not fit the question");
    }
    if (node.listens && all.front()->may_free_a_key()) release_listener_.recheck_all();
    if (all.front()->query_.has_deadline) node.set_server_clock(clock_in(rows, server_name()));
    static const row none;
    for (std::size_t i = 0; i < all.size(); ++i)
        take_response(all[i], i < rows.size() ? rows[i] : none, node.sent_at);
    node.in_flight.clear();
    if (node.draining) {
        end_draining(node);
    } else if (!tables_.exist) {
        handshake(node);
    }
}

void client::take_response(const std::shared_ptr<query_operation>& op, const row& answer,
                           time_point sent_at) {
    if (op->state_ == query_operation::state::done) {
        op->on_late_response(answer);
        return;
    }
    if (!op->cancel_requested()) {
        if (const auto watch_req = op->watch_after(answer)) {
            start_watch(*op, *watch_req, sent_at);
            return;
        }
    }
    if (op->on_response(answer)) {
        remember_end_of_lock(*op);
        finish(op);
    } else if (op->cancel_requested()) {
        fail(op, cancelled_by_caller());
    } else {
        op->send_alone_ = true;
        enqueue(*op, true);
    }
}

void client::on_refused(connection_node& node, const server_error& error) {
    if (!node.ready) {
        on_closed(node, to_lock_error(error, server_name()));
        return;
    }
    if (retry_action_for(error.sqlstate) == retry_action::outcome_unknown) {
        fail_unknown(node.in_flight, to_lock_error(error, server_name()));
    } else {
        refuse(node.in_flight, error);
    }
    node.in_flight.clear();
    if (retry_action_for(error.sqlstate) == retry_action::reconnect) {
        close_idle_connections();  // Also closes `node`.
    } else if (node.draining) {
        end_draining(node);
    } else if (!tables_.exist) {
        handshake(node);
    }
}

/// The server did not perform these operations. One of them may be the cause, so each is sent alone
/// the next time.
void client::refuse(const operation_list& all, const server_error& error) {
    const lock_error failure = to_lock_error(error, server_name());
    const retry_action action = retry_action_for(error.sqlstate);
    const unsigned max_count = action == retry_action::reconnect ? max_reconnects : max_retries;
    if (action == retry_action::retry_unprepared) use_prepared_ = false;
    if (error.sqlstate == sqlstate_serialization_failure) sets_settings_ = true;
    if (error.sqlstate == sqlstate_out_of_shared_memory) release_listener_.remove_all_interest();
    const auto now = steady_clock::now();
    for (const auto& each : boost::adaptors::reverse(all)) {
        if (each->state_ != query_operation::state::sent) continue;
        const bool timed_out_early = is_statement_timeout(error) &&
                                     now + early_timeout_margin < each->deadline_ &&
                                     ++each->retries_ <= max_reconnects;
        // In a batch an operation waits for a shorter time than alone.
        const bool hit_batch_timeout = error.sqlstate == sqlstate_lock_timeout &&
                                       each->query_.is_batchable && !each->send_alone_;
        each->send_alone_ = each->send_alone_ || action != retry_action::retry_unprepared;
        const bool goes_another_way = all.size() > 1 || hit_batch_timeout || timed_out_early ||
                                      each->prepare_fallback(error.sqlstate);
        const bool may_go_again = goes_another_way || action == retry_action::retry ||
                                  (action != retry_action::fail && ++each->retries_ <= max_count);
        if (!may_go_again) {
            fail(each, failure);
        } else if (each->cancel_requested()) {
            fail(each, cancelled_by_caller());
        } else if (!goes_another_way && action == retry_action::retry && ++each->collisions_ > 1) {
            retry_later(each, failure);
        } else {
            enqueue(*each, true);
        }
    }
}

/// For an operation that has had more than one conflict. The random pause keeps two operations from
/// colliding again in lockstep.
void client::retry_later(const std::shared_ptr<query_operation>& op, const lock_error& error) {
    const milliseconds pause{1U << std::min(op->collisions_, 10U)};
    const auto then = steady_clock::now() + with_jitter(std::min(pause, max_retry_delay));
    if (then >= op->final_deadline_) {
        fail(op, error);
        return;
    }
    op->state_ = query_operation::state::backing_off;
    set_deadline(*op, then);
}

/// The server may have performed these operations, and did not reply.
void client::fail_unknown(const operation_list& all, const lock_error& error) {
    for (const auto& each : boost::adaptors::reverse(all)) {
        if (each->state_ != query_operation::state::sent) continue;
        if (!each->cancel_requested() && ++each->retries_ <= max_reconnects &&
            each->prepare_resend()) {
            enqueue(*each, true);
        } else {
            fail(each, error);
            each->on_outcome_unknown();
        }
    }
}

void client::on_closed(connection_node& node, const lock_error& error) {
    fail_unknown(node.in_flight, error);
    const bool was_ready = node.ready;
    const bool had_replied = node.has_replied;
    const bool was_reserved = node.reserved_for_priority;
    close(node);
    if (!was_ready && was_reserved) {
        // The reserved connection is optional: without it, extensions share the connections of
        // other operations.
        next_reserved_connect_at_ = steady_clock::now() + net::max_reconnect_delay;
    } else if (!was_ready) {
        on_no_connection(error);
    } else if (!had_replied && connect_failures_++ > 0) {
        // The server completes the handshake and then closes. The delay prevents a busy loop and is
        // short, so that each call sees an attempt.
        next_connect_at_ = steady_clock::now() + net::first_reconnect_delay;
    }
}

void client::on_no_connection(const lock_error& error) {
    const auto now = steady_clock::now();
    const bool hit_connection_limit = error.code() == error_code::rate_limited;
    // Clients that compete for the last connection try at different times.
    const milliseconds pause = net::reconnect_delay(++connect_failures_);
    next_connect_at_ = now + (hit_connection_limit ? with_jitter(pause) : pause);
    connect_error_ = error;
    if (hit_connection_limit) connection_limit_until_ = now + connection_limit_backoff;
    // If there are other connections, one of them will become free.
    if (std::any_of(connections_.begin(), connections_.end(),
                    [](const auto& each) { return each->ready && !each->reserved_for_priority; })) {
        return;
    }
    if (release_listener_.needs_connection(now))
        release_listener_.disable_for(hit_connection_limit ? connection_limit_backoff : pause);
    // Extensions and releases wait for a free connection until their deadlines: a lock expires if
    // it is not extended, and is held for too long if it is not released.
    const auto outlasts = [&](const query_operation& each) {
        return each.is_background() || (hit_connection_limit && each.has_priority());
    };
    // Operations that are held back fail first; otherwise they would enter the lanes that become
    // free.
    for (auto each = held_back_.begin(); each != held_back_.end();) {
        query_operation& next = *each++;
        if (!outlasts(next)) fail(next.self_, error);
    }
    for (auto* const queue : {&queue_, &lane_queue_, &priority_, &releases_, &batchable_}) {
        for (auto each = queue->begin(); each != queue->end();) {
            query_operation& next = *each++;
            if (!outlasts(next)) fail(next.self_, error);
        }
    }
}

/// No caller may be waiting for an answer on it.
void client::close(connection_node& node) {
    if (std::exchange(node.listens, false)) release_listener_.lose_connection();
    const auto position = std::find_if(connections_.begin(), connections_.end(),
                                       [&](const auto& each) { return each.get() == &node; });
    connections_.erase(position);
}

void client::close_idle_connections() {
    for (std::size_t i = connections_.size(); i-- > 0;) {
        if (connections_[i]->is_idle()) close(*connections_[i]);
    }
}

// Draining connections.

/// The connection stays open because the server may still execute the statement or wait for a lock.
/// It would continue after the connection is closed, and each such session counts towards its
/// `max_connections`.
void client::drain(connection_node& node, bool may_cancel_now) {
    const auto now = steady_clock::now();
    node.draining = {.replace_at = may_cancel_now ? now : now + replacement_delay,
                     .cancel_at = may_cancel_now ? now : now + late_reply_cancel_delay,
                     .close_at = now + drain_timeout};
    if (may_cancel_now) cancel_work(node);
}

/// A connection with a cancel request is closed, because a late request would cancel its next
/// transaction.
void client::end_draining(connection_node& node) {
    const auto in_use =
        std::count_if(connections_.begin(), connections_.end(), [&](const auto& each) {
            return each->reserved_for_priority == node.reserved_for_priority && !each->draining &&
                   !each->listens;
        });
    const auto max_count = node.reserved_for_priority ? 1 : pool_size_;
    if (node.draining->is_cancelled ||
        (!node.listens && static_cast<std::size_t>(in_use) >= max_count)) {
        close(node);
    } else {
        node.draining.reset();
    }
}

void client::expire_draining(time_point now) {
    for (std::size_t i = connections_.size(); i-- > 0;) {
        connection_node& each = *connections_[i];
        if (!each.draining) continue;
        if (now >= each.draining->close_at) {
            close(each);
        } else if (now >= each.draining->cancel_at && !each.draining->is_cancelled) {
            cancel_work(each);
        }
    }
}

void client::cancel_work(connection_node& node) {
    node.draining->is_cancelled = true;
    canceller_.start(node.conn->cancel_request());
}

// Completion of operations.

/// The server did not perform the operation.
void client::fail(const std::shared_ptr<query_operation>& op, const lock_error& error) {
    if (op->state_ == query_operation::state::done) return;
    op->on_error(error);
    finish(op);
}

/// Ends the operation for its caller now. If it was sent and no other caller waits for the same
/// answer, the connection is drained: it is not used again before the answer has come, so that no
/// other operation receives that answer.
void client::abandon(const std::shared_ptr<query_operation>& op, const lock_error& error) {
    if (op->state_ == query_operation::state::done) return;
    const bool was_sent = op->state_ == query_operation::state::sent;
    fail(op, error);
    if (!was_sent) return;
    const auto& others = op->sent_on_->in_flight;
    const bool no_caller_waits = std::all_of(others.begin(), others.end(), [](const auto& each) {
        return each->state_ == query_operation::state::done;
    });
    const bool may_wait_on_server =
        op->query_.may_wait_for_rows || op->query_.key_lock_sql != nullptr;
    if (no_caller_waits) drain(*op->sent_on_, op->cancel_requested() && may_wait_on_server);
    op->on_outcome_unknown();
}

void client::finish(const std::shared_ptr<query_operation>& op) {
    dequeue(*op);
    leave_lane(*op);
    if (op->state_ == query_operation::state::watching) watchers_.erase(op->watch_it_);
    op->state_ = query_operation::state::done;
    deadlines_.erase(deadlines_.iterator_to(*op));
    --admitted_;
    completed_.push_back(std::exchange(op->self_, nullptr));
}

// Operations that watch a key.

void client::start_watch(query_operation& op, const query_operation::watch_request& watch_req,
                         time_point sent_at) {
    auto result = release_listener::watch_result::unavailable;
    try {
        if (!yields_connections(steady_clock::now()))
            result = release_listener_.watch(watch_req.key, sent_at);
        if (result == release_listener::watch_result::watching) {
            op.watch_it_ = watchers_.emplace(watch_req.key, &op);
        }
    } catch (const std::bad_alloc&) {
        result = release_listener::watch_result::unavailable;
    }
    leave_lane(op);
    op.send_alone_ = false;
    switch (result) {
        case release_listener::watch_result::watching:
            op.state_ = query_operation::state::watching;
            set_deadline(op, watch_req.until);
            return;
        case release_listener::watch_result::retry_now:
            enqueue(op, false);
            set_deadline(op, op.final_deadline_);
            return;
        case release_listener::watch_result::unavailable:
            finish(op.self_);
            return;
    }
}

/// Queues a watching operation to be sent again.
void client::requeue(query_operation& op) noexcept {
    watchers_.erase(op.watch_it_);
    enqueue(op, false);
    set_deadline(op, op.final_deadline_);
}

void client::on_released(const std::string& key) {
    for (auto each = watchers_.find(key); each != watchers_.end(); each = watchers_.find(key))
        requeue(*each->second);
}

void client::on_subscription_lost() {
    while (!watchers_.empty())
        requeue(*watchers_.begin()->second);
}

void client::on_unavailable() {
    while (!watchers_.empty())
        finish(watchers_.begin()->second->self_);
}

bool client::has_watchers(const std::string& key) const {
    return watchers_.contains(key);
}

}  // namespace syncguard::postgres
