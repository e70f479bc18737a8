/// Redis client: sends the operations of many callers in batches over one pipelined connection.
///
/// The client does not depend on the meaning of the operations.
#pragma once

#include "net/socket_registry.hpp"
#include "net/submission_queue.hpp"
#include "redis/connection.hpp"
#include "redis/script_call.hpp"

#include <syncguard/error.hpp>
#include <syncguard/redis.hpp>
#include <syncguard/time.hpp>

#include <boost/asio/ssl/context.hpp>
#include <boost/intrusive/set.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace syncguard::redis {

using time_point = std::chrono::steady_clock::time_point;

class connection_node;
class script_operation;

/// The operations that watch a key, by key.
using watcher_map = std::multimap<std::string, std::shared_ptr<script_operation>, std::less<>>;

/// An operation that passes through the client. The leader calls its members. Only `watch_after`
/// may throw.
class script_operation : public net::operation,
                         public std::enable_shared_from_this<script_operation>,
                         public boost::intrusive::set_base_hook<> {
  public:
    script_operation(script_args args, time_point deadline)
        : operation(deadline), args_(std::move(args)), final_deadline_(deadline) {}

    /// Exactly one of these two is called, once. Neither is called if the operation ends with a
    /// reply that was passed to `watch_after`.
    virtual void on_response(const script_reply& reply) noexcept = 0;
    virtual void on_error(const lock_error& error) noexcept = 0;

    /// These may follow `on_error`. `on_abandoned`: the operation was sent, and its caller no
    /// longer waits for the reply. `on_late_response`: the reply came nevertheless.
    /// `on_outcome_unknown`: no reply will come, although the server may have performed the
    /// operation.
    virtual void on_abandoned() noexcept {}
    virtual void on_late_response(const script_reply& /*reply*/) noexcept {}
    virtual void on_outcome_unknown() noexcept {}

    /// Whether to watch a key and send the operation again when the key changes.
    [[nodiscard]] virtual bool wants_watch(time_point /*now*/) const noexcept { return false; }
    /// Called each time the operation is sent.
    virtual void before_send(lease_clock::time_point /*now*/) noexcept {}
    /// A key to watch before the operation is sent again, and the end of the watch.
    struct watch_request {
        std::string key;  ///< The Redis key.
        time_point until;
        /// Whether the server is asked to report changes of the key until then.
        bool tracks_key = true;
    };
    /// Called with each reply. Returns nothing if the reply is final. Otherwise the operation
    /// watches the key; if no other reply follows, it ends with this one. `notified`: the operation
    /// was sent again because the server reported a change of the key. May throw `std::bad_alloc`.
    [[nodiscard]] virtual std::optional<watch_request> watch_after(const script_reply& /*reply*/,
                                                                   bool /*notified*/) {
        return std::nullopt;
    }

    /// Notifies the caller. Called when the operation has ended and the client no longer uses it.
    virtual void deliver() noexcept {}
    /// Whether `deliver` calls a handler, which may take some time.
    [[nodiscard]] virtual bool has_handler() const noexcept { return false; }

  protected:
    script_args args_;

  private:
    friend class client;
    struct deadline_of {
        using type = time_point;
        const time_point& operator()(const script_operation& op) const noexcept {
            return op.deadline_;
        }
    };
    enum class state { queued, sent, watching, abandoned, done };

    state state_ = state::queued;
    /// The operation is sent alone, because the server refused its batch, perhaps because of other
    /// operations in it.
    bool send_alone_ = false;
    bool admitted_ = false;
    std::uint64_t number_ = 0;  ///< In the order of admission.
    bool has_watched_ = false;
    bool notified_ = false;  ///< The server reported a change of the key that it watches.
    watcher_map::iterator watch_it_;
    connection_node* sent_on_ = nullptr;
    /// The deadline of the call. `deadline_` may be earlier: the end of a watch or of a command.
    const time_point final_deadline_;
};

using batch = std::vector<std::shared_ptr<script_operation>>;
using operation_queue = std::deque<std::shared_ptr<script_operation>>;

/// A call of the script, or a command, whose reply is outstanding.
struct in_flight_call {
    /// The operations of a call of the script, or the operation that watches a key.
    batch operations;
    std::optional<script_operation::watch_request> watch{};
    /// The number of outstanding replies to the preceding commands, which make the server track the
    /// key.
    unsigned setup_replies = 0;
};

/// Sends queued operations in batches; each batch is one call of the script. Only a few calls are
/// in flight at a time; operations submitted meanwhile form the next batch.
///
/// Thread safety: all public members may be called concurrently, unless they say otherwise.
class client : public net::io_loop::handler {
  public:
    explicit client(options opts);
    ~client() override;

    /// Reads the TLS files. Without this call the client reads them before its first connection.
    /// Call it before any other use, to detect errors early. Throws `lock_error` (invalid_argument)
    /// if they cannot be used.
    void prepare();

    /// Performs an operation and returns when it has ended; the calling thread does the I/O if no
    /// other thread does.
    void execute(const std::shared_ptr<script_operation>& op);

    /// Submits an operation and returns at once. Throws `lock_error` (rate_limited) if too many
    /// operations wait, or `std::system_error` if no thread can be started; the operation was not
    /// submitted then.
    void submit(const std::shared_ptr<script_operation>& op);

    /// Submits a background operation that is not sent before `when`, or soon if shutdown has
    /// begun. Only for the leader.
    void submit_at(time_point when, std::shared_ptr<script_operation> op);

    /// Ends an operation with `aborted`, unless it has ended.
    void cancel(std::shared_ptr<script_operation> op) noexcept;

    /// Waits for background operations, for `grace` at most, and ends the client's thread. All
    /// other operations must have ended. No member may be called after it.
    void shutdown(std::chrono::milliseconds grace);

    [[nodiscard]] net::io_loop& loop() noexcept { return submissions_.loop(); }
    [[nodiscard]] net::socket_registry& sockets() noexcept { return sockets_; }

    [[nodiscard]] const std::string& server_name() const noexcept { return server_name_; }

  private:
    friend class connection_node;

    step_result run_once() override;
    [[nodiscard]] receive_result try_receive() override;
    [[nodiscard]] int pollable_socket() const override;
    [[nodiscard]] bool peer_shares_cpu() const override;
    [[nodiscard]] bool has_outstanding_work() const override;

    void drain_submissions();
    void admit_submitted();
    void admit_due(time_point now);
    void expire_overdue(time_point now);
    void remove_done_from_queues();
    void connect_if_needed(time_point now);
    void send_waiting();
    [[nodiscard]] std::pair<std::ptrdiff_t, std::ptrdiff_t> next_batch() const;
    void send_batch();
    static void send_watch(const std::shared_ptr<script_operation>& op,
                           script_operation::watch_request watch_req);
    void set_deadline(script_operation& op, time_point deadline);
    void close_drained(time_point now);
    void deliver_completions();
    [[nodiscard]] time_point next_wakeup(time_point now) const;
    [[nodiscard]] bool batch_is_ready() const;
    [[nodiscard]] std::size_t min_batch() const;
    [[nodiscard]] operation_queue& queue_of(const script_operation& op);
    [[nodiscard]] std::size_t queued() const noexcept { return priority_.size() + waiting_.size(); }

    void on_no_connection(const lock_error& error);
    void on_reply(connection_node& node, const resp::value& reply);
    void on_watch_reply(connection_node& node, const resp::value& reply);
    void on_push(const resp::value& message);
    void on_closed(connection_node& node, const lock_error& error);
    void start_draining(connection_node& node);
    void start_draining_if_silent(time_point now);
    void start_draining_after_failover(connection_node& node);
    void close(connection_node& node, const lock_error& error);
    void requeue_front(connection_node& node, bool alone);
    void fail_overtaken_extensions(const batch& executed);
    [[nodiscard]] static bool has_waiting_caller(const std::deque<in_flight_call>& calls);

    void admit(const std::shared_ptr<script_operation>& op);
    void take_response(const std::shared_ptr<script_operation>& op, const script_reply& reply);
    void fail(const std::shared_ptr<script_operation>& op, const lock_error& error);
    void abandon(const std::shared_ptr<script_operation>& op, const lock_error& error);
    void fail_unknown(const std::shared_ptr<script_operation>& op, const lock_error& error);
    void finish(const std::shared_ptr<script_operation>& op);

    void start_watch(const std::shared_ptr<script_operation>& op,
                     script_operation::watch_request watch_req);
    void requeue(script_operation& op);
    void requeue_watchers_of(const connection_node& node);

    const options opts_;
    const std::string server_name_;
    const lock_error out_of_memory_;

    // For any thread.
    std::atomic<bool> shutdown_requested_{
        false};  ///< Set by `shutdown`, cleared by the next `run_once`.
    net::socket_registry sockets_;

    // Only for the leader. An operation is always in one of these containers, even if memory runs
    // out.
    std::optional<boost::asio::ssl::context> tls_;
    net::submission_queue submissions_;
    std::vector<std::shared_ptr<net::task>> submitted_;
    std::size_t submitted_taken_ = 0;
    std::vector<std::shared_ptr<net::operation>> cancelled_;
    operation_queue priority_;  ///< Sent before those in `waiting_`.
    operation_queue waiting_;
    boost::intrusive::multiset<script_operation,
                               boost::intrusive::key_of_value<script_operation::deadline_of>>
        deadlines_;
    std::multimap<time_point, std::shared_ptr<script_operation>> deferred_;
    watcher_map watchers_;
    std::size_t done_in_queue_ = 0;  ///< Finished operations that are still in a queue.
    std::vector<std::shared_ptr<script_operation>> completed_;
    std::vector<std::shared_ptr<script_operation>> spare_completed_;  ///< Empty, for reuse.
    std::size_t admitted_ = 0;
    std::uint64_t last_number_ = 0;
    std::vector<std::unique_ptr<connection_node>> connections_;
    connection_node* active_ = nullptr;  ///< The one on which new operations are sent.
    bool shutting_down_ = false;  ///< Shutdown has begun: operations are deferred only briefly.
    unsigned connect_failures_ = 0;
    std::optional<lock_error> connect_error_;  ///< Cleared by the next attempt to connect.
    time_point next_connect_at_{};
    time_point
        no_failover_before_{};  ///< Until then the client stays on a server that cannot write.
    std::string call_bytes_;
    std::vector<const script_args*> batch_args_;
};

}  // namespace syncguard::redis
