#include "support/redis_connection.hpp"

#include "support/loopback.hpp"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace syncguard::test {

namespace {

owned_fd connect_to(const std::filesystem::path& unix_socket) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string& path = unix_socket.native();
    if (path.size() >= sizeof address.sun_path) {
        throw std::runtime_error(path +
                                 " is too long for a unix socket; set TMPDIR to a shorter "
                                 "folder");
    }
    std::memcpy(static_cast<char*>(address.sun_path), path.c_str(), path.size() + 1);
    owned_fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        throw std::system_error(errno, std::generic_category(), "connect to " + path);
    }
    return socket;
}

}  // namespace

redis_connection::redis_connection(const std::filesystem::path& unix_socket,
                                   std::chrono::milliseconds patience)
    : redis_connection(connect_to(unix_socket), patience) {}

redis_connection::redis_connection(std::uint16_t port, std::chrono::milliseconds patience)
    : redis_connection(connect_to_loopback(port), patience) {}

redis_connection::redis_connection(owned_fd socket, std::chrono::milliseconds patience)
    : socket_(std::move(socket)) {
    const auto us = std::chrono::microseconds(patience).count();
    const timeval limit{.tv_sec = us / 1'000'000, .tv_usec = us % 1'000'000};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

redis_reply redis_connection::command(const std::vector<std::string>& arguments) {
    send(arguments);
    return receive();
}

void redis_connection::send(const std::vector<std::string>& arguments) {
    std::string text = '*' + std::to_string(arguments.size()) + "\r\n";
    for (const auto& each : arguments)
        text += '$' + std::to_string(each.size()) + "\r\n" + each + "\r\n";
    for (std::size_t sent = 0; sent < text.size();) {
        const auto n = ::send(socket_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) throw std::system_error(errno, std::generic_category(), "send to Redis");
        sent += static_cast<std::size_t>(n);
    }
}

redis_reply redis_connection::receive() {
    const std::string head = line();
    redis_reply reply;
    if (head.empty()) throw std::runtime_error("Redis sent an empty line");
    const std::string rest = head.substr(1);
    switch (head[0]) {
        case '+':
            reply.text = rest;
            return reply;
        case '-':
            reply.text = rest;
            reply.is_error = true;
            return reply;
        case ':':
            reply.integer = std::stoll(rest);
            return reply;
        case '$':
            reply.is_null = rest == "-1";
            if (!reply.is_null) {
                reply.text = bytes(std::stoul(rest));
                (void)bytes(2);
            }
            return reply;
        case '*':
            reply.is_null = rest == "-1";
            for (long long left = std::stoll(rest); left > 0; --left)
                reply.list.push_back(receive());
            return reply;
        default:
            throw std::runtime_error("Redis sent what is not RESP2: " + head);
    }
}

void redis_connection::receive_more() {
    std::array<char, 4096> buffer{};
    const auto n = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) return;
    if (n < 0) throw std::system_error(errno, std::generic_category(), "receive from Redis");
    if (n == 0) throw std::runtime_error("Redis closed the connection");
    received_.append(buffer.data(), static_cast<std::size_t>(n));
}

std::string redis_connection::line() {
    auto end = received_.find("\r\n");
    for (; end == std::string::npos; end = received_.find("\r\n"))
        receive_more();
    const std::string text = bytes(end);
    (void)bytes(2);
    return text;
}

std::string redis_connection::bytes(std::size_t count) {
    while (received_.size() < count)
        receive_more();
    std::string text = received_.substr(0, count);
    received_.erase(0, count);
    return text;
}

}  // namespace syncguard::test
