/// What a transaction pooler does to its clients, at its worst: each transaction of a connection
/// goes to another session than the one before.
#pragma once

#include "support/owned_fd.hpp"

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace syncguard::test {

/// In front of a server on 127.0.0.1 that asks for no password. Speaks no TLS.
class transaction_pooler {
  public:
    explicit transaction_pooler(std::uint16_t server_port);
    transaction_pooler(const transaction_pooler&) = delete;
    transaction_pooler& operator=(const transaction_pooler&) = delete;
    ~transaction_pooler();

    [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
    /// Ends the next transaction whose messages contain `text` (a key or a lock id) as a pooler
    /// does whose server seems to hang: the server commits it, the client gets a FATAL error with
    /// this SQLSTATE and no ReadyForQuery, then the end of the stream. Other transactions, such as
    /// those that greet a new connection, are left alone.
    void fail_next_transaction(std::string sqlstate, std::string text) {
        const std::lock_guard guard(mutex_);
        failure_ = fault{std::move(sqlstate), std::move(text)};
    }
    /// The same, but as an error after which the connection goes on.
    void refuse_next_transaction(std::string sqlstate, std::string text) {
        const std::lock_guard guard(mutex_);
        refusal_ = fault{std::move(sqlstate), std::move(text)};
    }
    /// The same, but before the server has answered.
    void refuse_next_transaction_early(std::string sqlstate, std::string text) {
        const std::lock_guard guard(mutex_);
        early_refusal_ = fault{std::move(sqlstate), std::move(text)};
    }
    /// How many there have been.
    [[nodiscard]] std::size_t connections() const {
        const std::lock_guard guard(mutex_);
        return clients_.size();
    }

  private:
    struct fault {
        std::string sqlstate;
        std::string text;
    };

    void serve(int client);
    /// The SQLSTATE of a fault that is due for a transaction with these messages.
    [[nodiscard]] std::optional<std::string> take(std::optional<fault>& due,
                                                  const std::string& messages);

    owned_fd listener_;
    std::uint16_t server_port_;
    std::uint16_t port_;
    mutable std::mutex mutex_;
    std::optional<fault> failure_;
    std::optional<fault> refusal_;
    std::optional<fault> early_refusal_;
    std::list<owned_fd> clients_;
    std::list<std::jthread> servants_;
    std::jthread accepting_;
};

}  // namespace syncguard::test
