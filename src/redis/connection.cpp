#include "redis/connection.hpp"

#include "net/tls.hpp"
#include "net/without_signals.hpp"
#include "redis/resp/writer.hpp"
#include "redis/server_error.hpp"
#include "util/file_descriptor.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sched.h>
#include <sys/socket.h>

#include <utility>

namespace syncguard::redis {

namespace asio = boost::asio;
using asio::use_awaitable;
using boost::system::system_error;

namespace {

/// Large enough for the replies to many operations.
constexpr std::size_t read_size = 16'384;

constexpr milliseconds failed_write_grace{100};

std::string command(const std::vector<std::string_view>& words) {
    std::string bytes;
    resp::append_command_header(bytes, words.size());
    for (const auto word : words)
        resp::append_bulk(bytes, word);
    return bytes;
}

/// Whether the server refused the client certificate.
bool is_client_certificate_error(const boost::system::error_code& problem) {
    if (problem.category() != asio::error::get_ssl_category()) return false;
    // NOLINTNEXTLINE(google-runtime-int): OpenSSL's type
    switch (ERR_GET_REASON(static_cast<unsigned long>(problem.value()))) {
        case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        case SSL_R_SSLV3_ALERT_NO_CERTIFICATE:
        case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
        case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
        case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
        case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
            return true;
        default:
            return false;
    }
}

/// Whether the reply comes from a server without RESP3.
bool is_resp2_only(std::string_view reply) {
    return reply.starts_with("ERR unknown command") || reply.starts_with("NOPROTO") ||
           reply.starts_with("ERR unknown or unsupported command");
}

}  // namespace

std::string describe_server(const options& opts) {
    if (!opts.unix_socket.empty()) return "Redis at " + opts.unix_socket.string();
    const bool is_ipv6 = opts.host.find(':') != std::string::npos;
    return "Redis at " + (is_ipv6 ? "[" + opts.host + "]" : opts.host) + ":" +
           std::to_string(opts.port);
}

connection::connection(asio::io_context& context, const options& opts, asio::ssl::context* tls,
                       net::socket_registry& sockets, listener& callbacks)
    : context_(context),
      opts_(opts),
      tls_context_(tls),
      sockets_(sockets),
      listener_(&callbacks),
      server_name_(describe_server(opts)),
      // NOLINTNEXTLINE(bugprone-throw-keyword-missing): it is made while there is memory for it
      out_of_memory_(error_code::internal, "out of memory on the connection to " + server_name_),
      resolver_(context),
      socket_(context),
      timer_(context) {}

void connection::open() {
    timer_.expires_after(opts_.connect_timeout);
    timer_.async_wait([self = weak_from_this()](const boost::system::error_code& stopped) {
        const auto alive = self.lock();
        // The timer may have expired just before it was stopped; then its handler still runs.
        if (stopped || !alive || alive->established_) return;
        alive->fail_as([&] {
            return lock_error(error_code::network_timeout,
                              alive->server_name_ + " did not complete the connection within " +
                                  std::to_string(alive->opts_.connect_timeout.count()) + " ms");
        });
    });
    asio::co_spawn(context_, run(), asio::detached);
}

void connection::send(std::string_view commands) {
    if (writing_failed_) return;
    outgoing_.append(commands);
    if (being_written_.empty()) flush();
}

void connection::close() noexcept {
    closed_ = true;
    listener_ = nullptr;
    close_socket();
    try {
        resolver_.cancel();
        timer_.cancel();
    } catch (const std::exception&) {  // they end later and find the connection closed
    }
}

asio::awaitable<void> connection::run() {
    const auto self = shared_from_this();
    try {
        co_await establish();
        established_ = true;
        timer_.cancel();
        if (listener_ != nullptr) listener_->on_ready();
        co_await read_loop();
    } catch (...) {
        fail_as([this] { return current_failure(); });
    }
}

asio::awaitable<void> connection::read_loop() {
    while (!closed_) {
        dispatch_messages();
        if (!closed_) co_await receive();
    }
}

void connection::dispatch_messages() {
    while (const auto message = closed_ ? std::nullopt : reader_.next()) {
        if (message->type() == resp::kind::push) {
            listener_->on_push(*message);
        } else {
            listener_->on_reply(*message);
        }
    }
}

bool connection::try_receive() {
    const auto self = shared_from_this();
    try {
        if (!try_receive_some()) return false;
        dispatch_messages();
    } catch (...) {
        fail_as([this] { return current_failure(); });
    }
    return true;
}

bool connection::peer_shares_cpu() {
    if (closed_ || !socket_.is_open()) return false;
    int cpu = -1;
    socklen_t size = sizeof cpu;
    return ::getsockopt(socket_.native_handle(), SOL_SOCKET, SO_INCOMING_CPU, &cpu, &size) == 0 &&
           cpu == ::sched_getcpu();
}

asio::awaitable<void> connection::establish() {
    auto candidates = co_await resolve();
    co_await connect_to_one_of(std::move(candidates));
    if (tls_context_ != nullptr) co_await tls_handshake();
    co_await handshake();
}

asio::awaitable<std::vector<connection::endpoint>> connection::resolve() {
    std::vector<endpoint> found;
    if (!opts_.unix_socket.empty()) {
        found.emplace_back(asio::local::stream_protocol::endpoint(opts_.unix_socket.string()));
        co_return found;
    }
    boost::system::error_code not_an_address;
    const auto address = asio::ip::make_address(opts_.host, not_an_address);
    if (!not_an_address) {
        found.emplace_back(asio::ip::tcp::endpoint(address, opts_.port));
        co_return found;
    }
    // Looked up for each connection, because the name may refer to another server later.
    const std::string port = std::to_string(opts_.port);
    boost::system::error_code problem;
    const net::without_signals token(asio::redirect_error(use_awaitable, problem));
    const auto entries = co_await resolver_.async_resolve(opts_.host, port, token);
    if (problem) {
        throw lock_error(error_code::service_unavailable,
                         "cannot find the host of " + server_name_ + ": " + problem.message());
    }
    for (const auto& entry : entries)
        found.emplace_back(entry.endpoint());
    co_return found;
}

asio::awaitable<void> connection::connect_to_one_of(std::vector<endpoint> candidates) {
    boost::system::error_code problem = asio::error::host_not_found;
    for (std::size_t tried = 0; tried < candidates.size() && problem; ++tried) {
        if (closed_) co_return;
        // The remaining time is divided among the remaining addresses, so that a dead address
        // leaves time for the others. The last attempt is limited by `timer_`.
        const auto left = timer_.expiry() - std::chrono::steady_clock::now();
        const auto share = left / static_cast<int>(candidates.size() - tried);
        const bool is_last = tried + 1 == candidates.size();
        problem = co_await connect_to(candidates[tried], is_last ? 2 * left : share);
    }
    if (closed_) co_return;
    if (problem) {
        throw lock_error(error_code::service_unavailable,
                         "cannot connect to " + server_name_ + ": " + problem.message() +
                             "; is the server running, and is the address right?");
    }
    socket_.non_blocking(true);
    if (opts_.unix_socket.empty()) {
        socket_.set_option(asio::ip::tcp::no_delay(true));
        socket_.set_option(asio::socket_base::keep_alive(true));
    }
}

asio::awaitable<boost::system::error_code> connection::connect_to(
    const endpoint& candidate, std::chrono::steady_clock::duration at_most) {
    close_socket();
    const auto protocol = candidate.protocol();
    if (const auto refused = sockets_.open(socket_, protocol, registered_socket_))
        co_return refused;

    asio::steady_timer limit(context_, at_most);
    const int opened = socket_.native_handle();
    limit.async_wait([weak = weak_from_this(), opened](const boost::system::error_code& stopped) {
        const auto self = weak.lock();
        const bool still_at_it = self && self->connecting_ && self->socket_.is_open() &&
                                 self->socket_.native_handle() == opened;
        boost::system::error_code ignored;
        if (!stopped && still_at_it) self->socket_.cancel(ignored);
    });
    boost::system::error_code problem;
    auto token = asio::redirect_error(use_awaitable, problem);
    connecting_ = true;
    co_await socket_.async_connect(candidate, token);
    connecting_ = false;
    if (!problem) reregister_socket(protocol, problem);
    if (problem == asio::error::operation_aborted) problem = asio::error::timed_out;
    co_return problem;
}

/// To connect, Asio registers the socket for write events and does not unregister it: each wait for
/// data would first return because the socket is writable.
void connection::reregister_socket(const socket::protocol_type& protocol,
                                   boost::system::error_code& problem) {
    const net::socket_registry::no_fork guard(sockets_);
    const int number = socket_.release(problem);
    if (problem) return;
    file_descriptor same(number, "socket");
    sockets_.remove(registered_socket_);
    socket_.assign(protocol, same.get(), problem);
    if (!problem) sockets_.add(registered_socket_, same.release());
}

asio::awaitable<void> connection::tls_handshake() {
    if (closed_) co_return;
    tls_.emplace(socket_, *tls_context_);
    net::expect_host(tls_->native_handle(), opts_.host);
    boost::system::error_code problem;
    auto token = asio::redirect_error(use_awaitable, problem);
    co_await tls_->async_handshake(asio::ssl::stream_base::client, token);
    if (!problem || closed_) co_return;
    const std::string refused = net::certificate_problem(tls_->native_handle());
    if (!refused.empty()) {
        throw lock_error(error_code::auth_failed,
                         "the certificate of " + server_name_ + " was refused: " + refused);
    }
    throw broken(problem);
}

asio::awaitable<void> connection::handshake() {
    if (closed_) co_return;
    std::vector<std::string_view> words{"HELLO", "3"};
    if (has_credentials()) {
        std::string_view user = "default";
        if (!opts_.username.empty()) user = opts_.username;
        words.insert(words.end(), {"AUTH", user, opts_.password});
    }
    if (!opts_.client_name.empty()) words.insert(words.end(), {"SETNAME", opts_.client_name});
    send(command(words));

    const auto hello = co_await next_reply();
    if (hello.is_error()) {
        if (!is_resp2_only(hello.text())) {
            throw to_lock_error(hello.text(), server_name_, false);
        }
        supports_push_ = false;
        co_await handshake_resp2();
    }
    if (opts_.database != 0) {
        const std::string number = std::to_string(opts_.database);
        send(command({"SELECT", number}));
        co_await expect_no_error(false);
    }
}

asio::awaitable<void> connection::handshake_resp2() {
    if (has_credentials()) {
        send(opts_.username.empty() ? command({"AUTH", opts_.password})
                                    : command({"AUTH", opts_.username, opts_.password}));
        co_await expect_no_error(true);
    }
    if (!opts_.client_name.empty()) {
        send(command({"CLIENT", "SETNAME", opts_.client_name}));
        // The name is optional, so an error is ignored.
        (void)co_await next_reply();
    }
}

asio::awaitable<void> connection::expect_no_error(bool secret) {
    const auto reply = co_await next_reply();
    if (reply.is_error()) throw to_lock_error(reply.text(), server_name_, !secret);
}

asio::awaitable<resp::value> connection::next_reply() {
    while (true) {
        if (closed_) throw system_error(asio::error::operation_aborted);
        const auto message = reader_.next();
        if (!message) {
            co_await receive();
        } else if (message->type() != resp::kind::push) {
            co_return *message;
        }
    }
}

asio::awaitable<void> connection::receive() {
    // As an error code: if there were no memory for an exception, the coroutine would not continue.
    boost::system::error_code problem;
    auto token = asio::redirect_error(use_awaitable, problem);
    if (tls_) {
        const auto room = reader_.prepare(read_size);
        const auto buffer = asio::buffer(room.data(), room.size());
        const std::size_t count = co_await tls_->async_read_some(buffer, token);
        if (problem) throw broken(problem);
        reader_.commit(count);
    } else {
        // Waits without a buffer, since `try_receive` may receive the data first.
        co_await socket_.async_wait(socket::wait_read, token);
        if (problem) throw broken(problem);
        if (!closed_) try_receive_some();
    }
}

/// False if nothing has come.
bool connection::try_receive_some() {
    const auto room = reader_.prepare(read_size);
    boost::system::error_code problem;
    const std::size_t count = socket_.receive(asio::buffer(room.data(), room.size()), 0, problem);
    if (problem == asio::error::would_block || problem == asio::error::interrupted) return false;
    if (problem) throw broken(problem);
    reader_.commit(count);
    return true;
}

void connection::close_socket() noexcept {
    sockets_.close(socket_, registered_socket_);
}

void connection::flush() {
    if (!tls_) {
        // Usually all bytes fit into the socket's buffer, and no event is needed.
        boost::system::error_code problem;
        const std::size_t sent = socket_.send(asio::buffer(outgoing_), 0, problem);
        if (!problem) outgoing_.erase(0, sent);
    }
    if (outgoing_.empty()) return;
    being_written_.swap(outgoing_);
    const auto written = [self = shared_from_this()](const boost::system::error_code& problem,
                                                     std::size_t /*count*/) {
        self->being_written_.clear();
        if (self->closed_) return;
        if (problem) {
            self->end_after_failed_write(problem);
        } else if (!self->outgoing_.empty()) {
            self->flush();
        }
    };
    const auto buffer = asio::buffer(being_written_);
    if (tls_) {
        asio::async_write(*tls_, buffer, written);
    } else {
        asio::async_write(socket_, buffer, written);
    }
}

/// Nothing more can be sent. For `failed_write_grace` the connection is still read, because the
/// server may have sent the reason.
void connection::end_after_failed_write(const boost::system::error_code& problem) {
    writing_failed_ = true;
    timer_.expires_after(failed_write_grace);
    timer_.async_wait([self = shared_from_this(), problem](const auto& stopped) {
        if (!stopped) self->fail_as([&] { return self->broken(problem); });
    });
}

bool connection::has_credentials() const noexcept {
    return !opts_.username.empty() || !opts_.password.empty();
}

template <class MakeError>
void connection::fail_as(MakeError make) {
    try {
        fail(make());
    } catch (const std::bad_alloc&) {
        fail(out_of_memory_);
    }
}

void connection::fail(const lock_error& error) {
    if (closed_) return;
    listener* const callbacks = listener_;
    close();
    callbacks->on_closed(error);
}

/// The error for the exception that is being handled.
lock_error connection::current_failure() const {
    try {
        throw;
    } catch (const lock_error& error) {
        return error;
    } catch (const resp::malformed& violation) {
        return {error_code::internal,
                server_name_ + " sent something that is not Redis' protocol (" + violation.what() +
                    "); the connection was closed",
                {},
                std::current_exception()};
    } catch (const system_error& problem) {
        return broken(problem.code());
    } catch (const std::bad_alloc&) {
        return out_of_memory_;
    } catch (const std::exception& problem) {
        return {error_code::internal,
                server_name_ + ": " + problem.what(),
                {},
                std::current_exception()};
    }
}

lock_error connection::broken(const boost::system::error_code& problem) const {
    if (is_client_certificate_error(problem)) {
        return {error_code::auth_failed,
                server_name_ + " refused the client certificate: " + problem.message()};
    }
    if (problem == asio::error::eof || problem == asio::ssl::error::stream_truncated) {
        return {error_code::service_unavailable, server_name_ + " closed the connection"};
    }
    return {error_code::service_unavailable,
            "the connection to " + server_name_ + " broke: " + problem.message()};
}

}  // namespace syncguard::redis
