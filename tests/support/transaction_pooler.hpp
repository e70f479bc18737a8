/// What a transaction pooler does to its clients, at its worst: each transaction of a connection
/// goes to another session than the one before.
#pragma once

#include "owned_fd.hpp"

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <thread>

namespace syncguard::test {

/// In front of a server on 127.0.0.1 that asks for no password. Speaks no TLS.
class transaction_pooler {
  public:
    explicit transaction_pooler(std::uint16_t server_port);
    transaction_pooler(const transaction_pooler&) = delete;
    transaction_pooler& operator=(const transaction_pooler&) = delete;
    ~transaction_pooler();

    [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
    /// How many there have been.
    [[nodiscard]] std::size_t connections() const {
        const std::lock_guard guard(mutex_);
        return clients_.size();
    }

  private:
    void serve(int client) const;

    owned_fd listener_;
    std::uint16_t server_port_;
    std::uint16_t port_;
    mutable std::mutex mutex_;
    std::list<owned_fd> clients_;
    std::list<std::jthread> servants_;
    std::jthread accepting_;
};

}  // namespace syncguard::test
