/// The decisions of the lock protocol, from the documents that were read. Pure: time is an
/// argument.
#pragma once

#include "firestore/documents.hpp"

#include <syncguard/engine.hpp>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace syncguard::firestore {

[[nodiscard]] std::uint64_t counter_of(const fence& token);

/// Whether a stored lock belongs to the key, which is in NFC. Keys may share a document, such as
/// `a` and `a/`.
[[nodiscard]] bool is_lock_of(const lock_record& lock, std::string_view key);

/// The live lock that prevents an acquisition of the key; null if there is none.
[[nodiscard]] const lock_record* blocking_lock(const stored_pair& read, unix_time now);

/// The smallest fence that is greater than those of all earlier locks of the key. Throws
/// `lock_error` (internal) if the fence counter is at its end.
[[nodiscard]] fence next_fence(const stored_pair& read);

/// How long a lock still excludes others, if it is neither extended nor released.
[[nodiscard]] milliseconds time_until_free(const lock_record& lock, unix_time now);

/// The lock to write for an acquisition; nothing if the key is locked. Throws `lock_error`
/// (internal) if the fence counter is at its end.
[[nodiscard]] std::optional<lock_record> grant_on(const stored_pair& read,
                                                  const acquire_request& req, unix_time now);

/// The lock with the given id that a release or an extension changes.
struct owned_lock {
    const stored_lock* lock = nullptr;  ///< Live; null if there is none.
    failure_reason reason{};            ///< Why there is none.
    bool is_ambiguous = false;          ///< Several are live.
};
[[nodiscard]] owned_lock choose_owned(const std::vector<stored_lock>& found, const lock_id& id,
                                      unix_time now);

/// Whether a lock ended so long ago that not even a slow extension can still be in flight.
[[nodiscard]] bool may_be_cleaned_up(const lock_record& lock, unix_time now);

}  // namespace syncguard::firestore
