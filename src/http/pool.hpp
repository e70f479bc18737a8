/// Connection pool for one HTTP server.
#pragma once

#include "http/connection.hpp"
#include "net/tls.hpp"

#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace syncguard::net {

/// Sends each request on a connection that carries no other request at that time, if possible on an
/// idle one that was kept alive.
///
/// Thread safety: none; used by the thread that runs the context. All calls must end before the
/// pool is destroyed.
class http_pool {
  public:
    struct settings {
        http_origin origin;
        std::string server_name;  ///< Names the server in messages.
        std::size_t most_connections = 1;
        std::chrono::milliseconds connect_timeout{5'000};
    };

    /// All arguments must outlive the pool; `tls` is null for connections without TLS.
    http_pool(boost::asio::io_context& context, settings opts, lazy_tls_context* tls,
              socket_registry& sockets);
    http_pool(const http_pool&) = delete;
    http_pool& operator=(const http_pool&) = delete;
    ~http_pool() = default;

    [[nodiscard]] const std::string& server_name() const noexcept { return opts_.server_name; }

    /// Sends a request and receives its answer. Throws `response_lost` if the request may have been
    /// sent, another `lock_error` if it was not.
    [[nodiscard]] boost::asio::awaitable<http_response> request(const http_request& req,
                                                                call_context& ctx);

  private:
    class checkout;
    class waiter;
    using waiter_queue = std::list<waiter*>;
    struct idle {
        std::unique_ptr<http_connection> connection;
        std::chrono::steady_clock::time_point since;
    };

    [[nodiscard]] boost::asio::awaitable<std::unique_ptr<http_connection>> take(call_context& ctx);
    [[nodiscard]] std::unique_ptr<http_connection> take_idle();
    void give_back(std::unique_ptr<http_connection> connection);
    /// Delays new connections after requests that were cancelled. Otherwise callers whose timeout
    /// is shorter than the server's response time would open a connection with each call. Calls
    /// that have priority are not delayed.
    void note_cancelled_request();
    [[nodiscard]] bool must_pause(const call_context& ctx) const;

    boost::asio::io_context& context_;
    const settings opts_;
    lazy_tls_context* tls_;
    socket_registry& sockets_;
    std::size_t connection_count_ = 0;
    unsigned cancelled_requests_ = 0;  ///< Since the last answer.
    std::chrono::steady_clock::time_point next_connect_at_;
    std::vector<idle> idle_;
    waiter_queue priority_;  ///< Calls that have priority.
    waiter_queue waiting_;
};

}  // namespace syncguard::net
