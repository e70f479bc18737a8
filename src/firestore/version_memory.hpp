/// What the locks that were granted here look like in the store, as far as is known.
#pragma once

#include "documents.hpp"

#include <syncguard/lock_id.hpp>

#include <list>
#include <optional>
#include <string>
#include <unordered_map>

namespace syncguard::firestore {

/// Lets a lock be released or extended without reading it first. If a lock has changed since, the
/// precondition of the write fails, and it is read after all: what is remembered need not be true.
///
/// It forgets the oldest beyond a fixed number.
class version_memory {
  public:
    struct entry {
        std::string name;
        firestore::version version;
        unix_time expires_at;
    };

    void remember(const lock_id& id, entry what);
    void forget(const lock_id& id);
    [[nodiscard]] std::optional<entry> find(const lock_id& id) const;

  private:
    struct place {
        entry what;
        std::list<lock_id>::iterator age;
    };

    std::list<lock_id> by_age_;
    std::unordered_map<lock_id, place> entries_;
};

}  // namespace syncguard::firestore
