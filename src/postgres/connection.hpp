/// One connection to a PostgreSQL server: it logs in, sends one transaction at a time, and hands on
/// what came of it.
///
/// It knows neither locks nor who asked.
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

/// Everything happens on the thread that runs the context.
class connection : public std::enable_shared_from_this<connection> {
  public:
    /// Whom the connection tells. None of these is called after `close`.
    class listener {
      public:
        virtual void on_ready() = 0;
        /// The transaction was committed.
        virtual void on_reply(const row_list& rows) = 0;
        /// It was not, and nothing of it has happened: the error was followed by ReadyForQuery.
        virtual void on_refused(const refusal& why) = 0;
        /// The end: the connection could not be made, broke, or made no sense. What came of the
        /// transaction under way is not known, whatever error was sent before the end: a pooler
        /// sends one of its own while the server commits.
        virtual void on_closed(const lock_error& why) = 0;
        /// Something came on a channel that the session listens to.
        virtual void on_notification(const std::string& /*payload*/) {}

        listener() = default;
        listener(const listener&) = delete;
        listener& operator=(const listener&) = delete;
        virtual ~listener() = default;
    };

    /// All arguments outlive the connection's use.
    connection(boost::asio::io_context& context, const target& server, net::shown_sockets& shown,
               listener& told);
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;
    ~connection() = default;

    /// Begins to connect; `on_ready` or `on_closed` follows.
    void open();

    /// Sends a transaction, once it is ready and the former has ended. `named` lets the server keep
    /// the statements. If it cannot be sent, `on_closed` follows before this returns.
    void send(const transaction& what, bool named);

    /// Reads what came while nothing was asked. False if that was the end; `on_closed` was called.
    [[nodiscard]] bool is_alive();

    /// Ends it without another word to the listener.
    void close() noexcept;

    /// A request to the server to stop its work for this connection. Null if there is no memory.
    [[nodiscard]] canceller::request cancel_request() const {
        return canceller::request(PQgetCancel(session_.get()));
    }

    /// The number of the process that serves it, as it was told when it was made.
    [[nodiscard]] std::string server_process() const;

  private:
    template <class T>
    using awaitable = boost::asio::awaitable<T>;

    struct finisher {
        void operator()(PGconn* session) const noexcept { PQfinish(session); }
    };
    /// What the next result belongs to.
    struct expectation {
        enum class kind { preparation, step, last_step, end } what = kind::step;
        std::string prepared{};  ///< The name of the statement.
    };

    awaitable<void> live();
    awaitable<void> establish();
    awaitable<std::vector<candidate>> resolve();
    awaitable<void> look_up(const candidate& named, std::vector<candidate>& found,
                            std::string& problem);
    awaitable<std::optional<lock_error>> connect_to(const candidate& place,
                                                    std::chrono::steady_clock::duration at_most);
    awaitable<bool> poll_until_connected();
    [[nodiscard]] PostgresPollingStatusType poll_connection();
    void end_session() noexcept;
    void let_go_of_socket() noexcept;
    void take_hold_of_socket();
    void take_input();
    void take_results();
    void take_notifications();
    void take_result(const PGresult& result);
    void hand_on_outcome();
    void flush();
    void send_step(const step& what, bool named, expectation::kind as);
    void check(int sent) const;
    void fail(const lock_error& why);
    [[nodiscard]] lock_error current_failure() const;
    [[nodiscard]] lock_error too_late() const;
    [[nodiscard]] lock_error broken() const;

    boost::asio::io_context& context_;
    const target& server_;
    net::shown_sockets& shown_;
    listener* told_;
    const lock_error out_of_memory_;

    boost::asio::ip::tcp::resolver resolver_;
    std::unique_ptr<PGconn, finisher> session_;
    net::shown_socket shown_socket_;
    /// Borrows the session's socket, to wait for it.
    boost::asio::posix::stream_descriptor socket_;
    boost::asio::steady_timer limit_;  ///< Of the attempt at one place, then of the whole.
    std::set<std::string> prepared_;   ///< By their names.
    unsigned since_plans_were_made_ = 0;
    std::deque<expectation> expected_;
    bool result_seen_ = false;
    row_list answer_;
    std::optional<refusal> refused_;
    bool writing_ = false;
    bool established_ = false;
    bool out_of_time_ = false;
    bool closed_ = false;
};

}  // namespace syncguard::postgres
