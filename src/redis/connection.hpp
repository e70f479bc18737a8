/// One connection to a Redis server: it greets, sends bytes, and hands on whole replies.
///
/// It knows neither locks nor which reply belongs to what.
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

/// How messages name the server.
[[nodiscard]] std::string describe_server(const options& store);

/// Everything happens on the thread that runs the context.
class connection : public std::enable_shared_from_this<connection> {
  public:
    /// Whom the connection tells. None of these is called after `close`.
    class listener {
      public:
        virtual void on_ready() = 0;
        /// The value lives as long as the call.
        virtual void on_reply(const resp::value& reply) = 0;
        /// What the server says unasked; as long as the call.
        virtual void on_push(const resp::value& news) = 0;
        /// The end: the connection could not be made, broke, or made no sense.
        virtual void on_closed(const lock_error& why) = 0;

        listener() = default;
        listener(const listener&) = delete;
        listener& operator=(const listener&) = delete;
        virtual ~listener() = default;
    };

    /// All arguments outlive the connection's use; `tls` is null for none.
    connection(boost::asio::io_context& context, const options& store,
               boost::asio::ssl::context* tls, net::shown_sockets& shown, listener& told);
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;
    ~connection() = default;

    /// Begins to connect; `on_ready` or `on_closed` follows.
    void open();

    /// Sends commands, once it is ready. Bytes that cannot go at once are kept.
    void send(std::string_view commands);

    /// Its socket, where all that can happen is that something comes for `look` to take in; else
    /// -1.
    [[nodiscard]] int socket_to_look_at() {
        const bool sends_or_ends = !being_written_.empty() || writing_failed_ || closed_;
        return established_ && !tls_ && !sends_or_ends ? socket_.native_handle() : -1;
    }

    /// Takes in what has come, without waiting: the listener is told before it returns. False if
    /// nothing has.
    bool look();

    /// Whether what came last was sent from the CPU that this thread is on. Of a server elsewhere
    /// it tells where the network was served, which is of no consequence.
    [[nodiscard]] bool is_answered_from_this_cpu();

    /// Whether the server can say something unasked. Known once it is ready.
    [[nodiscard]] bool carries_pushes() const noexcept { return carries_pushes_; }

    /// Ends it without another word to the listener.
    void close() noexcept;

  private:
    using socket = boost::asio::generic::stream_protocol::socket;
    using endpoint = boost::asio::generic::stream_protocol::endpoint;
    template <class T>
    using awaitable = boost::asio::awaitable<T>;

    awaitable<void> live();
    awaitable<void> hand_on_replies();
    void hand_on_whole_messages();
    awaitable<void> establish();
    awaitable<std::vector<endpoint>> resolve();
    awaitable<void> connect_to_one_of(std::vector<endpoint> candidates);
    awaitable<boost::system::error_code> connect_to(const endpoint& candidate,
                                                    std::chrono::steady_clock::duration at_most);
    void register_afresh(const socket::protocol_type& protocol, boost::system::error_code& problem);
    awaitable<void> secure();
    awaitable<void> greet();
    awaitable<void> greet_in_old_protocol();
    awaitable<void> expect_no_error(bool secret);
    awaitable<resp::value> next_reply();
    awaitable<void> receive();
    bool receive_now();
    void close_socket() noexcept;
    void flush();
    void end_after_failed_write(const boost::system::error_code& problem);
    [[nodiscard]] bool has_credentials() const noexcept;
    /// With what `make` returns, or for want of memory to say so.
    template <class MakeError>
    void fail_as(MakeError make);
    void fail(const lock_error& why);
    [[nodiscard]] lock_error current_failure() const;
    [[nodiscard]] lock_error broken(const boost::system::error_code& problem) const;

    boost::asio::io_context& context_;
    const options& store_;
    boost::asio::ssl::context* const tls_context_;
    net::shown_sockets& shown_;
    listener* told_;
    const std::string where_;
    const lock_error out_of_memory_;

    boost::asio::ip::tcp::resolver resolver_;
    net::shown_socket shown_socket_;
    socket socket_;
    std::optional<boost::asio::ssl::stream<socket&>> tls_;
    boost::asio::steady_timer limit_;  ///< Of whatever must not last.
    resp::reader reader_;
    std::string outgoing_;
    std::string being_written_;
    bool connecting_ = false;
    bool established_ = false;
    bool carries_pushes_ = true;  ///< Not in the old protocol.
    bool writing_failed_ = false;
    bool closed_ = false;
};

}  // namespace syncguard::redis
