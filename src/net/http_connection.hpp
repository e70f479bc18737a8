/// One connection to an HTTP server: made, used for one exchange after the other, closed.
#pragma once

#include "http_message.hpp"
#include "interruption.hpp"
#include "shown_sockets.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace syncguard::net {

class http_connection {
  public:
    using tcp = boost::asio::ip::tcp;

    /// All arguments outlive the connection; `tls` is null for none. `where` is what messages call
    /// the server.
    http_connection(boost::asio::io_context& context, const http_origin& origin,
                    const std::string& where, boost::asio::ssl::context* tls, shown_sockets& shown);
    http_connection(const http_connection&) = delete;
    http_connection& operator=(const http_connection&) = delete;
    ~http_connection() { close(); }

    /// Finds the host, connects, and secures the connection, all within `at_most`. Throws
    /// `lock_error`, after which the connection is of no use.
    [[nodiscard]] boost::asio::awaitable<void> open(interruption& limits,
                                                    std::chrono::milliseconds at_most);

    /// Sends a request and receives its answer. Throws the reason of an interruption that came
    /// before, else `exchange_broken`; then the connection is closed: the answer may still come,
    /// and must not be taken for another's.
    [[nodiscard]] boost::asio::awaitable<http_response> exchange(const http_request& what,
                                                                 interruption& limits);

    /// Whether another exchange can be tried. What the server said of the connection's end
    /// meanwhile is seen, without waiting.
    [[nodiscard]] bool is_usable();

    /// After a failed exchange: whether anything of an answer had come.
    [[nodiscard]] bool heard_something() const noexcept { return heard_something_; }

    void close() noexcept;

  private:
    [[nodiscard]] boost::asio::awaitable<std::vector<tcp::endpoint>> resolve(interruption& limits);
    [[nodiscard]] boost::asio::awaitable<void> connect(std::vector<tcp::endpoint> candidates);
    [[nodiscard]] boost::asio::awaitable<void> secure();
    [[nodiscard]] std::chrono::steady_clock::duration time_left() const;
    void check_time(std::chrono::milliseconds at_most) const;
    [[nodiscard]] exchange_broken broken(const boost::system::error_code& problem) const;

    boost::asio::io_context& context_;
    const http_origin& origin_;
    const std::string& where_;
    boost::asio::ssl::context* tls_context_;
    shown_sockets& shown_;
    tcp::socket socket_;
    std::optional<boost::asio::ssl::stream<tcp::socket&>> tls_;
    boost::beast::flat_buffer received_;
    std::chrono::steady_clock::time_point open_until_{};
    bool heard_something_ = false;
    bool may_stay_ = false;
};

}  // namespace syncguard::net
