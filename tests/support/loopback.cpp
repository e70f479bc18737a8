#include "support/loopback.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace syncguard::test {

namespace {

[[noreturn]] void fail(const std::string& action) {
    throw std::system_error(errno, std::generic_category(), action);
}

owned_fd tcp_socket() {
    owned_fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket.get() < 0) fail("socket");
    return socket;
}

}  // namespace

sockaddr_in loopback_address(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

std::uint16_t port_of(int socket) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0)
        fail("getsockname");
    return ntohs(address.sin_port);
}

owned_fd connect_to_loopback(std::uint16_t port) {
    owned_fd socket = tcp_socket();
    const sockaddr_in address = loopback_address(port);
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        fail("connect to 127.0.0.1:" + std::to_string(port));
    const int yes = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return socket;
}

reserved_port::reserved_port() : socket_(tcp_socket()) {
    const int yes = 1;
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    const sockaddr_in any = loopback_address(0);
    if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0)
        fail("bind to a free port of 127.0.0.1");
}

}  // namespace syncguard::test
