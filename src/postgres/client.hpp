/// PostgreSQL client: a pool of connections for many callers. Each connection executes one
/// transaction at a time, which performs one operation or a batch.
///
/// The client does not depend on the meaning of the queries.
#pragma once

#include "net/socket_registry.hpp"
#include "net/submission_queue.hpp"
#include "postgres/canceller.hpp"
#include "postgres/connection.hpp"
#include "postgres/greeting.hpp"
#include "postgres/query.hpp"
#include "postgres/release_listener.hpp"
#include "postgres/server_address.hpp"
#include "postgres/statements.hpp"

#include <syncguard/error.hpp>
#include <syncguard/lock_id.hpp>
#include <syncguard/postgres.hpp>
#include <syncguard/time.hpp>

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace syncguard::postgres {

using time_point = std::chrono::steady_clock::time_point;

class connection_node;

class query_operation;

/// The operations that watch a key, by key.
using watcher_map = std::multimap<std::string, query_operation*, std::less<>>;

/// A resource on the server for which a query may wait: the advisory lock of a key, or the row of a
/// lock id.
struct lane {
    bool of_key;
    std::string_view name;
    [[nodiscard]] auto operator<=>(const lane&) const = default;
};

struct in_lane;
using lane_hook = boost::intrusive::set_base_hook<boost::intrusive::tag<in_lane>>;

struct in_queue;
using queue_hook = boost::intrusive::list_base_hook<boost::intrusive::tag<in_queue>>;
/// Intrusive, so that queueing an operation again does not allocate.
using operation_queue =
    boost::intrusive::list<query_operation, boost::intrusive::base_hook<queue_hook>>;

/// An operation that passes through the client. The leader calls its members. Only `watch_after`
/// may throw.
class query_operation : public net::operation,
                        public std::enable_shared_from_this<query_operation>,
                        public boost::intrusive::set_base_hook<>,
                        public lane_hook,
                        public queue_hook {
  public:
    query_operation(query asked, time_point deadline)
        : operation(deadline), query_(std::move(asked)), final_deadline_(deadline) {}

    /// Called with the row that answers the operation; it has no fields if the server returned
    /// none. Returns true if the operation has ended. Returns false if the server did nothing,
    /// because another client is acquiring the key or the server's clock was past the deadline:
    /// then the client sends the operation again, alone, and an acquisition with a statement that
    /// waits for the key lock. After `true` or `on_error`, neither of the two is called again.
    [[nodiscard]] virtual bool on_response(const row& reply) noexcept = 0;
    virtual void on_error(const lock_error& error) noexcept = 0;

    /// Called each time the operation is sent. If the query has a deadline, the server does not
    /// perform it after `server_deadline` by the server's clock.
    virtual void before_send(unix_time /*server_deadline*/) noexcept {}

    /// Whether it waits for a locked key to be released.
    [[nodiscard]] virtual bool wants_watch(time_point /*now*/) const noexcept { return false; }

    /// A key to watch before the operation is sent again, and the end of the watch.
    struct watch_request {
        std::string key;
        time_point until;
    };
    /// Called with each reply, before `on_response`. Returns nothing if the operation does not
    /// watch a key. Otherwise it watches the key, and if no other reply follows, it ends with this
    /// one. May throw `std::bad_alloc`.
    [[nodiscard]] virtual std::optional<watch_request> watch_after(const row& /*reply*/) {
        return std::nullopt;
    }

    /// After `on_error`: the reply came nevertheless.
    virtual void on_late_response(const row& /*reply*/) noexcept {}

    /// The connection broke before a reply came: the server may have performed the operation.
    /// Returns true if it may be sent again, perhaps with another query, to learn the outcome.
    [[nodiscard]] virtual bool prepare_resend() noexcept { return false; }

    /// The server has refused the operation. Returns true if it may be sent again because its
    /// query, or the state of the server, has changed.
    [[nodiscard]] virtual bool prepare_fallback(std::string_view sqlstate) noexcept;

    /// After `on_error`: the server may have performed the operation nevertheless.
    virtual void on_outcome_unknown() noexcept {}

    /// Notifies the caller. Called when the operation has ended and the client no longer uses it.
    virtual void deliver() noexcept {}

    /// The latest end of a lock, as far as it is known from the operation's answer, which was
    /// received at `now`. If the lock is not held, `at` is not later than `now`.
    struct end_of_lock {
        lock_id id;
        time_point at;
    };
    [[nodiscard]] virtual std::optional<end_of_lock> known_end_of_lock(
        time_point /*now*/) const noexcept {
        return std::nullopt;
    }

    /// Whether it is an extension, for which a connection is reserved.
    [[nodiscard]] virtual bool uses_reserved_connection() const noexcept { return false; }

  protected:
    [[nodiscard]] time_point final_deadline() const noexcept { return final_deadline_; }

    query query_;

  private:
    friend class client;
    struct deadline_of {
        using type = time_point;
        const time_point& operator()(const query_operation& op) const noexcept {
            return op.deadline_;
        }
    };
    /// The order in which the operations of a lane are sent.
    struct lane_order {
        bool operator()(const query_operation& a, const query_operation& b) const noexcept;
        bool operator()(const query_operation& a, const lane& b) const noexcept;
        bool operator()(const lane& a, const query_operation& b) const noexcept;
    };
    struct lane_of {
        using type = lane;
        lane operator()(const query_operation& op) const noexcept { return op.its_lane(); }
    };
    enum class state { queued, sent, watching, backing_off, done };

    [[nodiscard]] bool may_free_a_key() const noexcept;
    /// Whether it may wait on the server for long. The client sends at most one such operation of
    /// each lane at a time. Of these operations only extensions are sent on the reserved
    /// connection.
    [[nodiscard]] bool needs_lane() const noexcept;
    [[nodiscard]] lane its_lane() const noexcept;

    state state_ = state::queued;
    /// The client's ownership of the operation, from admission to completion.
    std::shared_ptr<query_operation> self_;
    operation_queue* queued_in_ = nullptr;
    /// Another operation is in its lane. Until that one leaves the lane, this one is in no queue.
    bool is_held_back_ = false;
    /// It is sent alone, because it needs the key lock or its batch was refused.
    bool send_alone_ = false;
    std::uint64_t sequence_ = 0;
    unsigned retries_ = 0;
    unsigned collisions_ = 0;  ///< Refusals because of a conflict with another transaction.
    connection_node* sent_on_ = nullptr;
    watcher_map::iterator watch_it_;
    const time_point final_deadline_;
};

using operation_list = std::vector<std::shared_ptr<query_operation>>;

/// Thread safety: all public members may be called concurrently, unless they say otherwise.
class client : public net::io_loop::handler, private release_listener::subscriber {
  public:
    /// The statements of queries contain placeholders for the tables. They must outlive the client.
    explicit client(const options& opts);
    ~client() override;

    /// Performs an operation and returns when it has ended; the calling thread does the I/O if no
    /// other thread does.
    void execute(const std::shared_ptr<query_operation>& op);

    /// Submits an operation and returns at once. Throws `lock_error` (rate_limited) if too many
    /// operations wait, or `std::system_error` if no thread can be started; the operation was not
    /// submitted then.
    void submit(const std::shared_ptr<query_operation>& op);

    /// Submits a background operation that is not sent before `when`, or soon if shutdown has
    /// begun. Only for the leader.
    void submit_at(time_point when, std::shared_ptr<query_operation> op);

    /// Ends an operation with `aborted`, unless it has ended.
    void cancel(std::shared_ptr<query_operation> op) noexcept;

    /// Waits for background operations, for `grace` at most, and ends the client's thread. All
    /// other operations must have ended. No member may be called after it.
    void shutdown(std::chrono::milliseconds grace);

    [[nodiscard]] net::io_loop& loop() noexcept { return submissions_.loop(); }
    [[nodiscard]] net::socket_registry& sockets() noexcept { return sockets_; }

    [[nodiscard]] const std::string& server_name() const noexcept { return address_.server_name; }

  private:
    friend class connection_node;
    step_result run_once() override;
    [[nodiscard]] bool has_outstanding_work() const override;

    void drain_submissions();
    void admit_submitted();
    void admit_due(time_point now);
    void expire_overdue(time_point now);
    void send_waiting();
    void send(connection_node& node, operation_queue& from);
    static void fill_batch(connection_node& node, operation_queue& from);
    [[nodiscard]] std::size_t in_flight_batches() const;
    [[nodiscard]] const statement& qualified(const statement& text);
    [[nodiscard]] operation_queue& queue_of(const query_operation& op);
    void connect_if_needed(time_point now);
    void connect(bool reserved_for_priority);
    void deliver_completions();
    [[nodiscard]] time_point next_wakeup(time_point now) const;
    [[nodiscard]] std::size_t min_batch() const;
    [[nodiscard]] connection_node* idle_connection(bool reserved_for_priority) const;
    [[nodiscard]] connection_node* usable_connection(bool reserved_for_priority);
    [[nodiscard]] connection_node* listening_connection() const;
    [[nodiscard]] time_point listening_connection_free_at() const;
    [[nodiscard]] bool may_use_listening_connection(const query_operation& next) const;
    [[nodiscard]] connection_node* usable_listening_connection(const query_operation& next);
    void maintain_listening_connection(time_point now);
    [[nodiscard]] bool yields_connections(time_point now);
    void remember_end_of_lock(const query_operation& op) noexcept;
    void handshake(connection_node& node);
    void expire_handshakes(time_point now);
    [[nodiscard]] operation_queue* next_queue(bool may_wait_for_long = true);
    [[nodiscard]] bool pool_is_blocked() const;
    [[nodiscard]] bool wants_reserved_connection() const;
    [[nodiscard]] bool has_queued() const;

    void on_reply(connection_node& node, const result_rows& rows);
    void on_handshake_reply(connection_node& node, const result_rows& rows);
    void take_response(const std::shared_ptr<query_operation>& op, const row& answer,
                       time_point sent_at);
    void on_refused(connection_node& node, const server_error& error);
    void on_closed(connection_node& node, const lock_error& error);
    void on_no_connection(const lock_error& error);
    void refuse(const operation_list& all, const server_error& error);
    void retry_later(const std::shared_ptr<query_operation>& op, const lock_error& error);
    void fail_unknown(const operation_list& all, const lock_error& error);
    void close(connection_node& node);
    void drain(connection_node& node, bool may_cancel_now);
    void end_draining(connection_node& node);
    void expire_draining(time_point now);
    void cancel_work(connection_node& node);
    void close_idle_connections();

    void admit(const std::shared_ptr<query_operation>& op);
    void cancel_admitted(const std::shared_ptr<query_operation>& op);
    void enqueue(query_operation& op, bool first) noexcept;
    void push_to_queue(query_operation& op, bool first) noexcept;
    static void dequeue(query_operation& op) noexcept;
    [[nodiscard]] bool enter_lane(query_operation& op) noexcept;
    void leave_lane(query_operation& op) noexcept;
    void set_deadline(query_operation& op, time_point deadline);
    void shorten_deadline(query_operation& op, time_point deadline);
    void fail(const std::shared_ptr<query_operation>& op, const lock_error& error);
    void abandon(const std::shared_ptr<query_operation>& op, const lock_error& error);
    void finish(const std::shared_ptr<query_operation>& op);

    void on_released(const std::string& key) override;
    void on_subscription_lost() override;
    void on_unavailable() override;
    [[nodiscard]] bool has_watchers(const std::string& key) const override;
    [[nodiscard]] std::shared_ptr<connection> connection_for_listener() override;
    [[nodiscard]] bool connection_is_free() const override;
    void start_watch(query_operation& op, const query_operation::watch_request& watch_req,
                     time_point sent_at);
    void requeue(query_operation& op) noexcept;

    const server_address address_;
    const table_pair named_tables_;
    const std::size_t pool_size_;
    const std::optional<milliseconds> statement_timeout_;

    // For any thread.
    std::atomic<bool> shutdown_requested_{
        false};  ///< Set by `shutdown`, cleared by the next `run_once`.
    net::socket_registry sockets_;

    // Only for the leader. Even if memory runs out, each admitted operation is in a queue, in
    // `held_back_`, in `watchers_`, in flight, backing off (then only in `deadlines_`), or done.
    net::submission_queue submissions_;
    std::vector<std::shared_ptr<net::task>> submitted_;
    std::size_t submitted_taken_ = 0;
    std::vector<std::shared_ptr<net::operation>> cancelled_;
    operation_queue queue_;
    operation_queue lane_queue_;  ///< Operations that may wait on the server for long.
    operation_queue priority_;
    operation_queue releases_;   ///< Releases that may be batched.
    operation_queue batchable_;  ///< Other operations that may be batched.
    /// The one operation of each lane that may be sent. It stays here from the time it is queued
    /// until it leaves the lane.
    boost::intrusive::set<query_operation, boost::intrusive::base_hook<lane_hook>,
                          boost::intrusive::key_of_value<query_operation::lane_of>>
        lanes_;
    /// The other operations of the lanes. They wait in the client, without a connection.
    boost::intrusive::multiset<query_operation, boost::intrusive::base_hook<lane_hook>,
                               boost::intrusive::compare<query_operation::lane_order>>
        held_back_;
    std::uint64_t last_sequence_ = 0;
    boost::intrusive::multiset<query_operation,
                               boost::intrusive::key_of_value<query_operation::deadline_of>>
        deadlines_;
    std::multimap<time_point, std::shared_ptr<query_operation>> deferred_;
    std::vector<std::shared_ptr<query_operation>> completed_;
    std::size_t admitted_ = 0;
    std::vector<std::unique_ptr<connection_node>> connections_;
    canceller canceller_;
    /// The tables that the first handshake found. Later changes of the search path and new tables
    /// have no effect.
    located_tables tables_;
    const settings_statements settings_;
    /// Whether each transaction begins with statements that change the session's settings. Becomes
    /// true when a handshake finds unsuitable settings, or when a conflict occurs that only a
    /// stricter isolation level causes. Applies to all connections, since behind a pooler each
    /// transaction may use another session.
    bool sets_settings_ = false;
    /// The statements with the names of `tables_`.
    std::map<const statement*, statement> qualified_;
    watcher_map watchers_;
    release_listener release_listener_;
    /// There was an extension: a connection is reserved for the next one.
    bool saw_priority_ = false;
    time_point next_reserved_connect_at_{};
    /// Until then the client assumes that the server has no connection left.
    time_point connection_limit_until_{};
    /// The latest possible ends of locks that were granted or extended, and whose release has not
    /// been answered. Entries of ended locks are removed lazily.
    std::map<lock_id, time_point> lock_ends_;
    std::size_t max_lock_ends_ = 0;  ///< At this size, entries of ended locks are removed.
    bool shutting_down_ = false;     ///< Shutdown has begun: operations are deferred only briefly.
    /// Cleared when a pooler has lost a prepared statement.
    bool use_prepared_ = true;
    unsigned connect_failures_ = 0;
    std::optional<lock_error> connect_error_;
    time_point next_connect_at_{};
};

}  // namespace syncguard::postgres
