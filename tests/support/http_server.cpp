#include "support/http_server.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <mutex>
#include <set>
#include <thread>

namespace syncguard::test {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;

namespace {

http_received as_received(const http::request<http::string_body>& message) {
    http_received received{.method = std::string(message.method_string()),
                           .target = std::string(message.target()),
                           .headers = {},
                           .body = message.body()};
    for (const auto& each : message) {
        std::string name(each.name_string());
        std::transform(name.begin(), name.end(), name.begin(),
                       [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        received.headers[name] = std::string(each.value());
    }
    return received;
}

/// While it is on, the system collects writes into full segments (TCP_CORK).
template <class Stream>
void cork(Stream& stream, bool on) {
    const int value = on ? 1 : 0;
    ::setsockopt(stream.lowest_layer().native_handle(), IPPROTO_TCP, TCP_CORK, &value,
                 sizeof value);
}

template <class Stream>
void write_answer(Stream& stream, const http_reply& reply) {
    http::response<http::string_body> response(http::int_to_status(reply.status), 11);
    response.result(reply.status);
    for (const auto& [name, value] : reply.headers)
        response.set(name, value);
    response.body() = reply.body;
    response.prepare_payload();
    http::write(stream, response);
}

/// Answers requests until the client or a reply ends the connection.
template <class Stream>
void serve_on(Stream& stream, const http_server::handler& answer) {
    boost::beast::flat_buffer buffer;
    while (true) {
        http::request<http::string_body> message;
        http::read(stream, buffer, message);
        const auto reply = answer(as_received(message));
        if (reply.cut) return;
        cork(stream, true);
        for (const auto& bytes : {reply.before, reply.raw})
            if (!bytes.empty()) asio::write(stream, asio::buffer(bytes));
        if (reply.raw.empty()) write_answer(stream, reply);
        if (!reply.behind.empty()) asio::write(stream, asio::buffer(reply.behind));
        cork(stream, false);
        if (reply.close_behind) return;
    }
}

}  // namespace

struct http_server::state {
    handler answer;
    std::optional<asio::ssl::context> tls;
    asio::io_context context;
    tcp::acceptor acceptor{context, {asio::ip::address_v4::loopback(), 0}};

    mutable std::mutex mutex;
    bool stopping = false;
    std::size_t accepted = 0;
    std::set<int> open;
    std::vector<std::thread> threads;
    std::thread listener;

    void listen() {
        while (true) {
            tcp::socket socket(context);
            boost::system::error_code problem;
            acceptor.accept(socket, problem);
            const std::lock_guard guard(mutex);
            if (stopping) return;
            if (problem) continue;
            socket.set_option(tcp::no_delay(true));
            ++accepted;
            open.insert(socket.native_handle());
            threads.emplace_back([this, client = std::move(socket)]() mutable { serve(client); });
        }
    }

    void serve(tcp::socket& client) {
        try {
            if (tls) {
                asio::ssl::stream<tcp::socket&> stream(client, *tls);
                stream.handshake(asio::ssl::stream_base::server);
                serve_on(stream, answer);
            } else {
                serve_on(client, answer);
            }
        } catch (const std::exception&) {  // the client has closed the connection
        }
        const std::lock_guard guard(mutex);
        open.erase(client.native_handle());
        client.close();
    }
};

http_server::http_server(handler answer, std::optional<certificate_files> tls)
    : state_(std::make_unique<state>()) {
    state_->answer = std::move(answer);
    if (tls) {
        state_->tls.emplace(asio::ssl::context::tls_server);
        state_->tls->use_certificate_chain_file(tls->certificate.string());
        state_->tls->use_private_key_file(tls->key.string(), asio::ssl::context::pem);
    }
    state_->listener = std::thread([this] { state_->listen(); });
}

http_server::~http_server() {
    {
        const std::lock_guard guard(state_->mutex);
        state_->stopping = true;
        for (const int each : state_->open)
            ::shutdown(each, SHUT_RDWR);
    }
    // Wakes the listener.
    ::shutdown(state_->acceptor.native_handle(), SHUT_RDWR);
    state_->listener.join();
    for (auto& each : state_->threads)
        each.join();
}

std::uint16_t http_server::port() const {
    return state_->acceptor.local_endpoint().port();
}

std::string http_server::url() const {
    return (state_->tls ? "https://localhost:" : "http://127.0.0.1:") + std::to_string(port());
}

std::size_t http_server::connections() const {
    const std::lock_guard guard(state_->mutex);
    return state_->accepted;
}

}  // namespace syncguard::test
