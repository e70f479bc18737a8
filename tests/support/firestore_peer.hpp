/// A client of the locks in Firestore that shares no code with the library, and names documents as
/// Google's client libraries do.
#pragma once

#include "support/firestore_emulator.hpp"

#include <syncguard/time.hpp>

#include <optional>
#include <string>

namespace syncguard::test {

/// What `collection.doc(path)` refers to: the path is split at '/', a slash at its beginning and at
/// its end is dropped. Empty if the client library refuses the path.
[[nodiscard]] std::optional<std::string> peer_document_path(const std::string& path);

class firestore_peer {
  public:
    firestore_peer(const firestore_project& project, wall_clock clock)
        : project_(project), clock_(std::move(clock)) {}

    /// Acquires in a transaction. Returns the fence, or nothing if the key is locked. Throws
    /// `std::invalid_argument` for a key that peers cannot lock.
    [[nodiscard]] std::optional<std::string> acquire(const std::string& key,
                                                     milliseconds ttl) const;
    void release(const std::string& key) const;

  private:
    const firestore_project& project_;
    const wall_clock clock_;
};

}  // namespace syncguard::test
