/// One connection to an HTTP server, used for one exchange after the other.
#pragma once

#include "http/call_context.hpp"
#include "http/message.hpp"
#include "net/socket_registry.hpp"

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
    using time_point = std::chrono::steady_clock::time_point;

    /// All arguments must outlive the connection; `tls` is null for a connection without TLS.
    /// `server_name` names the server in messages.
    http_connection(boost::asio::io_context& context, const http_origin& origin,
                    const std::string& server_name, boost::asio::ssl::context* tls,
                    socket_registry& sockets);
    http_connection(const http_connection&) = delete;
    http_connection& operator=(const http_connection&) = delete;
    ~http_connection() { close(); }

    /// Resolves the host name, connects and does the TLS handshake, all before `until`. Throws
    /// `lock_error`, after which the connection is unusable: network_timeout if time is up; after a
    /// cancellation, at once, its reason.
    [[nodiscard]] boost::asio::awaitable<void> open(call_context& ctx, time_point until);

    /// As `open`, with the host's addresses, which are tried one after the other.
    [[nodiscard]] boost::asio::awaitable<void> open_to(std::vector<tcp::endpoint> candidates,
                                                       call_context& ctx, time_point until);

    /// Sends a request and receives its answer, the final response: interim ones (1xx) are skipped.
    /// Throws the reason of a cancellation if that came before anything was sent, else
    /// `response_lost`; the connection is closed then, because the answer may still come and must
    /// not be taken for the answer to another request.
    [[nodiscard]] boost::asio::awaitable<http_response> exchange(const http_request& req,
                                                                 call_context& ctx);

    /// Whether another exchange can be tried. It detects, without waiting, that the server has
    /// closed the connection in the meantime.
    [[nodiscard]] bool is_usable();

    /// After a failed exchange: whether any part of an answer was received.
    [[nodiscard]] bool received_any() const noexcept { return received_any_; }

    void close() noexcept;

  private:
    [[nodiscard]] boost::asio::awaitable<void> connect(std::vector<tcp::endpoint> candidates,
                                                       const call_context& ctx, time_point until);
    [[nodiscard]] boost::asio::awaitable<void> tls_handshake();
    void check_time(time_point until) const;
    [[nodiscard]] response_lost broken(const boost::system::error_code& problem) const;

    boost::asio::io_context& context_;
    const http_origin& origin_;
    const std::string& server_name_;
    boost::asio::ssl::context* tls_context_;
    socket_registry& sockets_;
    registered_socket registered_socket_;
    tcp::socket socket_;
    std::optional<boost::asio::ssl::stream<tcp::socket&>> tls_;
    boost::beast::flat_buffer received_;
    bool received_any_ = false;
    bool keep_alive_ = false;
};

}  // namespace syncguard::net
