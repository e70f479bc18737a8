/// One connection to a PostgreSQL server: it logs in, sends one transaction at a time, and
/// dispatches its result.
///
/// Independent of locks and callers.
#pragma once

#include "net/socket_registry.hpp"
#include "postgres/canceller.hpp"
#include "postgres/server_address.hpp"
#include "postgres/transaction.hpp"

#include <syncguard/error.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <libpq-fe.h>

namespace syncguard::postgres {

/// All members are called by the thread that runs the context.
class connection : public std::enable_shared_from_this<connection> {
  public:
    /// Callbacks of a connection. None is called after `close`.
    class listener {
      public:
        virtual void on_ready() = 0;
        /// The transaction was committed.
        virtual void on_reply(const result_rows& rows) = 0;
        /// The transaction was rolled back without effect: ReadyForQuery followed the error.
        virtual void on_refused(const server_error& error) = 0;
        /// The connection has ended: it could not be made, it broke, or the server violated the
        /// protocol. The outcome of the transaction in flight is unknown, even if an error came
        /// first: a pooler may send its own error while the server commits.
        virtual void on_closed(const lock_error& error) = 0;
        /// A notification on a channel to which the session listens.
        virtual void on_notification(const std::string& /*payload*/) {}

        listener() = default;
        listener(const listener&) = delete;
        listener& operator=(const listener&) = delete;
        virtual ~listener() = default;
    };

    /// All arguments must outlive the connection's use.
    connection(boost::asio::io_context& context, const server_address& server,
               net::socket_registry& sockets, listener& callbacks);
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;
    ~connection() = default;

    /// Begins to connect; `on_ready` or `on_closed` follows.
    void open();

    /// Sends a transaction; the connection must be ready and the previous transaction ended.
    /// `named` makes it use prepared statements. If it cannot be sent, `on_closed` is called before
    /// this returns.
    void send(const transaction& statements, bool named);

    /// Reads what the server sent while no transaction was in flight. False if the connection has
    /// ended; `on_closed` was called then.
    [[nodiscard]] bool is_alive();

    /// Closes it without another callback.
    void close() noexcept;

    /// A request to cancel the server's work for this connection. Null if out of memory.
    [[nodiscard]] canceller::request cancel_request() const {
        return canceller::request(PQgetCancel(session_.get()));
    }

    /// The pid of the server's backend process at login.
    [[nodiscard]] std::string backend_pid() const;

  private:
    template <class T>
    using awaitable = boost::asio::awaitable<T>;

    struct finisher {
        void operator()(PGconn* session) const noexcept { PQfinish(session); }
    };
    /// The command to which the next result belongs.
    struct pending_result {
        enum class kind { prepare, statement, last_statement, sync } type = kind::statement;
        std::string prepared{};  ///< The name of the statement.
    };

    awaitable<void> run();
    awaitable<void> establish();
    awaitable<std::vector<host_candidate>> resolve();
    awaitable<void> look_up(const host_candidate& named, std::vector<host_candidate>& found,
                            std::string& problem);
    awaitable<std::optional<lock_error>> connect_to(const host_candidate& candidate,
                                                    std::chrono::steady_clock::duration at_most);
    awaitable<bool> poll_until_connected();
    [[nodiscard]] PostgresPollingStatusType poll_connection();
    void end_session() noexcept;
    void detach_socket() noexcept;
    void attach_socket();
    void take_input();
    void take_results();
    void take_notifications();
    void take_result(const PGresult& result);
    void dispatch_outcome();
    void flush();
    void send_statement(const bound_statement& bound, bool named, pending_result::kind type);
    void check(int sent) const;
    void fail(const lock_error& error);
    [[nodiscard]] lock_error current_failure() const;
    [[nodiscard]] lock_error connect_timed_out() const;
    [[nodiscard]] lock_error broken() const;

    boost::asio::io_context& context_;
    const server_address& server_;
    net::socket_registry& sockets_;
    listener* listener_;
    const lock_error out_of_memory_;

    boost::asio::ip::tcp::resolver resolver_;
    std::unique_ptr<PGconn, finisher> session_;
    net::registered_socket registered_socket_;
    /// A non-owning wrapper of the session's socket, to wait for it.
    boost::asio::posix::stream_descriptor socket_;
    boost::asio::steady_timer timer_;  ///< Limits each attempt, and all together.
    std::set<std::string> prepared_;   ///< The names of prepared statements.
    unsigned transactions_since_plan_ = 0;
    std::deque<pending_result> pending_;
    bool result_seen_ = false;
    result_rows answer_;
    std::optional<server_error> server_error_;
    bool writing_ = false;
    bool established_ = false;
    bool out_of_time_ = false;
    bool closed_ = false;
};

}  // namespace syncguard::postgres
