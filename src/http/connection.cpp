#include "http/connection.hpp"

#include "net/resolver.hpp"
#include "net/tls.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>

namespace syncguard::net {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::use_awaitable;
using std::chrono::steady_clock;

namespace {

/// Far more than any expected answer.
constexpr std::uint64_t largest_body = std::uint64_t{16} * 1024 * 1024;

constexpr unsigned switching_protocols = 101;
constexpr unsigned first_final_status = 200;
constexpr unsigned no_content = 204;
constexpr unsigned not_modified = 304;

http::request<http::string_body> as_message(const http_request& req, const http_origin& origin) {
    const bool is_post = req.method == http_request::verb::post;
    constexpr unsigned version_1_1 = 11;
    http::request<http::string_body> message(is_post ? http::verb::post : http::verb::get,
                                             req.target, version_1_1);
    message.set(http::field::host, origin.authority());
    message.set(http::field::user_agent, "syncguard-cpp");
    for (const auto& [name, value] : req.headers)
        message.set(name, value);
    message.body() = req.body;
    message.prepare_payload();
    return message;
}

/// Reads responses up to the first that is final. Interim responses (1xx) precede the final one and
/// do not answer the request. 101 ends HTTP on the connection, and a status below 100 does not
/// exist: both are `bad_status`.
template <class Stream>
asio::awaitable<http::response<http::string_body>> read_final_response(
    Stream& stream, boost::beast::flat_buffer& received, bool& received_any,
    boost::system::error_code& problem) {
    while (true) {
        http::response_parser<http::string_body> parser;
        parser.body_limit(largest_body);
        auto token = asio::redirect_error(use_awaitable, problem);
        co_await http::async_read(stream, received, parser, token);
        received_any = received_any || parser.got_some();
        const auto status = parser.get().result_int();
        if (!problem && (status < 100 || status == switching_protocols)) {
            problem = http::error::bad_status;
        }
        if (problem || status >= first_final_status) co_return parser.release();
    }
}

}  // namespace

http_connection::http_connection(asio::io_context& context, const http_origin& origin,
                                 const std::string& server_name, asio::ssl::context* tls,
                                 socket_registry& sockets)
    : context_(context),
      origin_(origin),
      server_name_(server_name),
      tls_context_(tls),
      sockets_(sockets),
      socket_(context) {}

asio::awaitable<void> http_connection::open(call_context& ctx, time_point until) {
    auto candidates = co_await resolve_host(context_, origin_, server_name_, until, ctx);
    co_await open_to(std::move(candidates), ctx, until);
}

asio::awaitable<void> http_connection::open_to(std::vector<tcp::endpoint> candidates,
                                               call_context& ctx, time_point until) {
    check_time(until);
    ctx.check();
    std::function<void()> stop = [this] { close(); };
    const call_context::cancel_handler connecting(ctx, std::move(stop));
    // The timer may have expired just before it was stopped; then its handler still runs.
    const auto attempt = std::make_shared<char>();
    asio::steady_timer limit(context_, until);
    limit.async_wait([this, weak = std::weak_ptr(attempt)](const auto& stopped) {
        if (!stopped && !weak.expired()) close();
    });
    std::exception_ptr failure;
    try {
        co_await connect(std::move(candidates), ctx, until);
        if (tls_context_ != nullptr) co_await tls_handshake();
    } catch (const lock_error&) {
        failure = std::current_exception();
    }
    ctx.check();
    check_time(until);
    if (failure) std::rethrow_exception(failure);
    keep_alive_ = true;
}

/// Returns without a connection if time is up or the call was cancelled.
asio::awaitable<void> http_connection::connect(std::vector<tcp::endpoint> candidates,
                                               const call_context& ctx, time_point until) {
    boost::system::error_code problem = asio::error::host_not_found;
    for (std::size_t tried = 0; tried < candidates.size() && problem; ++tried) {
        if (tried > 0) close();
        const auto protocol = candidates[tried].protocol();
        problem = sockets_.open(socket_, protocol, registered_socket_);
        if (problem) continue;
        // The remaining time is divided among the remaining addresses, so that a dead address
        // leaves time for the others.
        const auto left = std::max(until - steady_clock::now(), steady_clock::duration(0));
        asio::steady_timer share(context_, left / static_cast<int>(candidates.size() - tried));
        const auto attempt = std::make_shared<char>();
        share.async_wait([this, weak = std::weak_ptr(attempt)](const auto& stopped) {
            boost::system::error_code ignored;
            if (!stopped && !weak.expired()) socket_.cancel(ignored);
        });
        auto token = asio::redirect_error(use_awaitable, problem);
        co_await socket_.async_connect(candidates[tried], token);
        // Whatever the result, the socket may have been closed by `stop` or `limit`, and neither
        // would close the socket for the next address.
        if (ctx.is_cancelled() || steady_clock::now() >= until) co_return;
        if (problem == asio::error::operation_aborted) problem = asio::error::timed_out;
    }
    if (problem) {
        close();
        throw lock_error(error_code::service_unavailable,
                         "cannot connect to " + server_name_ + ": " + problem.message() +
                             "; is the server running, and is the address right?");
    }
    socket_.non_blocking(true);
    socket_.set_option(tcp::no_delay(true));
    socket_.set_option(asio::socket_base::keep_alive(true));
}

asio::awaitable<void> http_connection::tls_handshake() {
    if (!socket_.is_open()) co_return;
    tls_.emplace(socket_, *tls_context_);
    expect_host(tls_->native_handle(), origin_.host);
    boost::system::error_code problem;
    auto token = asio::redirect_error(use_awaitable, problem);
    co_await tls_->async_handshake(asio::ssl::stream_base::client, token);
    if (!problem) co_return;
    const std::string refused = certificate_problem(tls_->native_handle());
    close();
    if (!refused.empty()) {
        throw lock_error(error_code::auth_failed,
                         "the certificate of " + server_name_ + " was refused: " + refused);
    }
    throw lock_error(error_code::service_unavailable,
                     "no secure connection to " + server_name_ + ": " + problem.message());
}

asio::awaitable<http_response> http_connection::exchange(const http_request& req,
                                                         call_context& ctx) {
    ctx.check();
    received_any_ = false;
    const bool was_kept_alive = std::exchange(keep_alive_, false);
    std::function<void()> stop = [this] { close(); };
    const call_context::cancel_handler waiting(ctx, std::move(stop));

    const auto message = as_message(req, origin_);
    http::response<http::string_body> received;
    boost::system::error_code problem;
    auto token = asio::redirect_error(use_awaitable, problem);
    if (!was_kept_alive || !socket_.is_open()) {
        problem = asio::error::not_connected;
    } else if (tls_) {
        co_await http::async_write(*tls_, message, token);
        if (!problem) {
            received = co_await read_final_response(*tls_, received_, received_any_, problem);
        }
    } else {
        co_await http::async_write(socket_, message, token);
        if (!problem) {
            received = co_await read_final_response(socket_, received_, received_any_, problem);
        }
    }
    if (ctx.is_cancelled()) {
        close();
        throw response_lost(ctx.reason());
    }
    if (problem) {
        close();
        throw broken(problem);
    }

    // The parser expects no body after these statuses. If a server sends one nevertheless, it would
    // be read as the next answer, so the connection is not used again.
    const auto status = received.result_int();
    const bool has_no_body = status == no_content || status == not_modified;
    keep_alive_ = received.keep_alive() && !has_no_body && received_.size() == 0;
    http_response answer{.status = status,
                         .body = std::move(received.body()),
                         .date = parse_http_date(received[http::field::date])};
    co_return answer;
}

bool http_connection::is_usable() {
    if (!keep_alive_ || !socket_.is_open()) return false;
    // No request is outstanding: any data, or the end of the stream, makes the connection unusable.
    char byte = 0;
    if (tls_) {
        // This also finds data that the TLS layer has received and not yet returned. The socket is
        // non-blocking; OpenSSL processes session tickets and similar messages during the call.
        boost::system::error_code problem;
        tls_->read_some(asio::buffer(&byte, 1), problem);
        return problem == asio::error::would_block;
    }
    const auto count = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

void http_connection::close() noexcept {
    sockets_.close(socket_, registered_socket_);
}

void http_connection::check_time(time_point until) const {
    if (steady_clock::now() < until) return;
    throw lock_error(error_code::network_timeout,
                     server_name_ + " did not complete the connection in time");
}

response_lost http_connection::broken(const boost::system::error_code& problem) const {
    if (problem == http::error::end_of_stream || problem == http::error::partial_message ||
        problem == asio::error::eof || problem == asio::ssl::error::stream_truncated) {
        return {error_code::service_unavailable, server_name_ + " closed the connection"};
    }
    if (problem.category() == http::make_error_code(http::error::bad_value).category()) {
        return {error_code::internal, server_name_ +
                                          " sent something that is not HTTP as it is known "
                                          "here (" +
                                          problem.message() + "); the connection was closed"};
    }
    return {error_code::service_unavailable,
            "the connection to " + server_name_ + " broke: " + problem.message()};
}

}  // namespace syncguard::net
