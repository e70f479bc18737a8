/// Another SyncGuard implementation on PostgreSQL, from the server's point of view: the protocol of
/// docs/storage.md, each statement sent separately and awaited.
#pragma once

#include "support/postgres_connection.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace syncguard::test {

/// One session, for one thread. Throws `postgres_failure`.
class postgres_peer {
  public:
    explicit postgres_peer(const std::string& connection);

    /// Returns the fence if the lock was granted.
    std::optional<std::string> acquire(const std::string& key, const std::string& lock_id,
                                       std::chrono::milliseconds ttl);
    bool release(const std::string& lock_id);
    bool extend(const std::string& lock_id, std::chrono::milliseconds ttl);

    /// 22 characters, unique.
    static std::string new_lock_id();

  private:
    struct in_transaction;
    postgres_rows execute(const char* name, const std::vector<std::string>& parameters = {});

    postgres_connection session_;
};

}  // namespace syncguard::test
