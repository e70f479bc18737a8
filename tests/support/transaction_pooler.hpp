/// A transaction pooler in its worst case: consecutive transactions of a connection go to different
/// sessions.
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

/// A proxy for a server on 127.0.0.1 that asks for no password. Without TLS.
class transaction_pooler {
  public:
    explicit transaction_pooler(std::uint16_t server_port);
    transaction_pooler(const transaction_pooler&) = delete;
    transaction_pooler& operator=(const transaction_pooler&) = delete;
    ~transaction_pooler();

    [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
    /// Fails the next transaction whose messages contain `text` (a key or a lock id), as a pooler
    /// does if its server seems to hang: the server commits it, the client gets a FATAL error with
    /// this SQLSTATE and no ReadyForQuery, then the end of the stream. Other transactions, such as
    /// the greeting of a new connection, are not changed.
    void fail_next_transaction(std::string sqlstate, std::string text) {
        const std::lock_guard guard(mutex_);
        failure_ = fault{std::move(sqlstate), std::move(text)};
    }
    /// Like `fail_next_transaction`, but with an error after which the connection stays usable.
    void refuse_next_transaction(std::string sqlstate, std::string text) {
        const std::lock_guard guard(mutex_);
        refusal_ = fault{std::move(sqlstate), std::move(text)};
    }
    /// Like `refuse_next_transaction`, but before the server has answered.
    void refuse_next_transaction_early(std::string sqlstate, std::string text) {
        const std::lock_guard guard(mutex_);
        early_refusal_ = fault{std::move(sqlstate), std::move(text)};
    }
    /// How many connections the pooler has accepted so far.
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
    /// Removes and returns the SQLSTATE of a fault that applies to a transaction with these
    /// messages.
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
