/// One connection to a Redis server: does the handshake, sends bytes, and dispatches complete
/// replies.
///
/// It knows neither locks nor which reply belongs to which command.
#pragma once

#include "net/socket_registry.hpp"
#include "redis/resp/reader.hpp"

#include <syncguard/error.hpp>
#include <syncguard/redis.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace syncguard::redis {

/// The name of the server in messages.
[[nodiscard]] std::string describe_server(const options& opts);

/// All members are called by the thread that runs the context.
class connection : public std::enable_shared_from_this<connection> {
  public:
    /// Callbacks of a connection. None is called after `close`.
    class listener {
      public:
        virtual void on_ready() = 0;
        /// The value is valid during the call.
        virtual void on_reply(const resp::value& reply) = 0;
        /// A push message; it is valid during the call.
        virtual void on_push(const resp::value& message) = 0;
        /// The connection has ended: it could not be made, it broke, or the server violated the
        /// protocol.
        virtual void on_closed(const lock_error& error) = 0;

        listener() = default;
        listener(const listener&) = delete;
        listener& operator=(const listener&) = delete;
        virtual ~listener() = default;
    };

    /// All arguments must outlive the connection's use; `tls` is null for a connection without TLS.
    connection(boost::asio::io_context& context, const options& opts,
               boost::asio::ssl::context* tls, net::socket_registry& sockets, listener& callbacks);
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;
    ~connection() = default;

    /// Begins to connect; `on_ready` or `on_closed` follows.
    void open();

    /// Sends commands; the connection must be ready. Bytes that cannot be sent at once are
    /// buffered.
    void send(std::string_view commands);

    /// The socket, if the only event to wait for is data for `try_receive`; else -1.
    [[nodiscard]] int pollable_socket() {
        const bool sends_or_ends = !being_written_.empty() || writing_failed_ || closed_;
        return established_ && !tls_ && !sends_or_ends ? socket_.native_handle() : -1;
    }

    /// Receives without waiting, and calls the listener before it returns. False if nothing has
    /// come.
    bool try_receive();

    /// Whether the last data was sent from the CPU on which this thread runs. For a server on
    /// another host this is the CPU of the network interrupt, which does no harm.
    [[nodiscard]] bool peer_shares_cpu();

    /// Whether the server can send push messages. Valid once the connection is ready.
    [[nodiscard]] bool supports_push() const noexcept { return supports_push_; }

    /// Closes it without another callback.
    void close() noexcept;

  private:
    using socket = boost::asio::generic::stream_protocol::socket;
    using endpoint = boost::asio::generic::stream_protocol::endpoint;
    template <class T>
    using awaitable = boost::asio::awaitable<T>;

    awaitable<void> run();
    awaitable<void> read_loop();
    void dispatch_messages();
    awaitable<void> establish();
    awaitable<std::vector<endpoint>> resolve();
    awaitable<void> connect_to_one_of(std::vector<endpoint> candidates);
    awaitable<boost::system::error_code> connect_to(const endpoint& candidate,
                                                    std::chrono::steady_clock::duration at_most);
    void reregister_socket(const socket::protocol_type& protocol,
                           boost::system::error_code& problem);
    awaitable<void> tls_handshake();
    awaitable<void> handshake();
    awaitable<void> handshake_resp2();
    awaitable<void> expect_no_error(bool secret);
    awaitable<resp::value> next_reply();
    awaitable<void> receive();
    bool try_receive_some();
    void close_socket() noexcept;
    void flush();
    void end_after_failed_write(const boost::system::error_code& problem);
    [[nodiscard]] bool has_credentials() const noexcept;
    /// Fails with the error that `make` returns, or with out of memory if `make` cannot allocate.
    template <class MakeError>
    void fail_as(MakeError make);
    void fail(const lock_error& error);
    [[nodiscard]] lock_error current_failure() const;
    [[nodiscard]] lock_error broken(const boost::system::error_code& problem) const;

    boost::asio::io_context& context_;
    const options& opts_;
    boost::asio::ssl::context* const tls_context_;
    net::socket_registry& sockets_;
    listener* listener_;
    const std::string server_name_;
    const lock_error out_of_memory_;

    boost::asio::ip::tcp::resolver resolver_;
    net::registered_socket registered_socket_;
    socket socket_;
    std::optional<boost::asio::ssl::stream<socket&>> tls_;
    boost::asio::steady_timer timer_;  ///< Limits connecting, and reading after a failed write.
    resp::reader reader_;
    std::string outgoing_;
    std::string being_written_;
    bool connecting_ = false;
    bool established_ = false;
    bool supports_push_ = true;  ///< False in RESP2.
    bool writing_failed_ = false;
    bool closed_ = false;
};

}  // namespace syncguard::redis
