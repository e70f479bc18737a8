/// TCP on 127.0.0.1: addresses, connections and reserved ports.
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

/// A free port, reserved by a bound socket that never listens. The owner's server may listen on the
/// port repeatedly (with SO_REUSEADDR). The system assigns the port to no other socket, even while
/// that server is down; connections to the port are then refused.
class reserved_port {
  public:
    reserved_port();
    [[nodiscard]] std::uint16_t number() const { return port_of(socket_.get()); }

  private:
    owned_fd socket_;
};

}  // namespace syncguard::test
