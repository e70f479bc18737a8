/// The connections to one HTTP server, kept and shared.
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

/// Sends each request on a connection of its own, one that was kept where there is one.
///
/// Thread safety: none; used by the thread that runs the context. Calls end before the pool does.
class http_pool {
  public:
    struct settings {
        http_origin origin;
        std::string where;  ///< What messages call the server.
        std::size_t most_connections = 1;
        std::chrono::milliseconds connect_timeout{5'000};
    };

    /// All arguments outlive the pool; `tls` is null for none.
    http_pool(boost::asio::io_context& context, settings how, lazy_tls_context* tls,
              shown_sockets& shown);
    http_pool(const http_pool&) = delete;
    http_pool& operator=(const http_pool&) = delete;
    ~http_pool() = default;

    [[nodiscard]] const std::string& where() const noexcept { return how_.where; }

    /// Sends a request and receives its answer. Throws `exchange_broken` if it may have been sent,
    /// another `lock_error` if it was not.
    [[nodiscard]] boost::asio::awaitable<http_response> call(const http_request& what,
                                                             interruption& limits);

  private:
    class place;
    class waiter;
    using line = std::list<waiter*>;
    struct idle {
        std::unique_ptr<http_connection> connection;
        std::chrono::steady_clock::time_point since;
    };

    [[nodiscard]] boost::asio::awaitable<std::unique_ptr<http_connection>> take(
        interruption& limits);
    [[nodiscard]] std::unique_ptr<http_connection> take_idle();
    void give_back(std::unique_ptr<http_connection> connection);
    /// Delays new connections after calls that were interrupted. Otherwise callers whose time is
    /// shorter than the server's answers would open a connection with each call. Calls that have
    /// priority do not wait for that.
    void note_interruption();
    [[nodiscard]] bool must_pause(const interruption& limits) const;

    boost::asio::io_context& context_;
    const settings how_;
    lazy_tls_context* tls_;
    shown_sockets& shown_;
    std::size_t places_taken_ = 0;
    unsigned interruptions_ = 0;  ///< Without an answer since.
    std::chrono::steady_clock::time_point open_not_before_;
    std::vector<idle> idle_;
    line priority_;  ///< Calls that have priority.
    line waiting_;
};

}  // namespace syncguard::net
