/// TCP on 127.0.0.1: addresses, connections, and ports that nobody else gets.
#pragma once

#include "support/owned_fd.hpp"

#include <netinet/in.h>

#include <cstdint>

namespace syncguard::test {

[[nodiscard]] sockaddr_in loopback_address(std::uint16_t port);

/// The port that a socket is bound to.
[[nodiscard]] std::uint16_t port_of(int socket);

/// A blocking connection, without Nagle's delay.
[[nodiscard]] owned_fd connect_to_loopback(std::uint16_t port);

/// A free port, kept for its owner: a bound socket that never listens. A server of the owner's may
/// listen on it again and again (with SO_REUSEADDR); the system gives it to nobody else, also while
/// that server is down, when connections to it are refused.
class reserved_port {
  public:
    reserved_port();
    [[nodiscard]] std::uint16_t number() const { return port_of(socket_.get()); }

  private:
    owned_fd socket_;
};

}  // namespace syncguard::test
