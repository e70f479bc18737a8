/// The reference for SyncGuard's Firestore engine: the same locks with transactions.
#pragma once

#include "support/firestore_emulator.hpp"

#include <string>

namespace syncguard::bench {

/// Acquires and releases as clients with transactions do: begin, read lock and counter, commit;
/// begin, query by the lock's id, commit. Keeps one connection open.
class transaction_peer {
  public:
    transaction_peer(const test::firestore_project& project, std::string key);

    /// Throws `std::runtime_error` if the server refuses anything.
    void pair();

  private:
    std::string call(const std::string& method, const std::string& body);
    std::string begin();

    const test::firestore_project& project_;
    const std::string key_;
    const std::string root_;
    test::http_client connection_;
};

}  // namespace syncguard::bench
