#include "support/http_client.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

namespace syncguard::test {

namespace asio = boost::asio;
namespace http = boost::beast::http;

struct http_client::connection {
    asio::io_context context;
    asio::ip::tcp::socket socket{context};
    boost::beast::flat_buffer received;
};

http_client::http_client(std::uint16_t port) : connection_(std::make_unique<connection>()) {
    connection_->socket.connect({asio::ip::address_v4::loopback(), port});
    connection_->socket.set_option(asio::ip::tcp::no_delay(true));
}

http_client::~http_client() = default;

http_client::answer http_client::send(const std::string& method, const std::string& target,
                                      const std::string& body) {
    http::request<http::string_body> request(http::string_to_verb(method), target, 11);
    request.set(http::field::host, "127.0.0.1");
    request.set(http::field::authorization, "Bearer owner");
    request.set(http::field::content_type, "application/json");
    request.body() = body;
    request.prepare_payload();
    http::write(connection_->socket, request);
    http::response<http::string_body> response;
    http::read(connection_->socket, connection_->received, response);
    return {response.result_int(), std::move(response.body())};
}

}  // namespace syncguard::test
