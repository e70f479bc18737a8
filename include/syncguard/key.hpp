/// Keys: normalisation, hashes for logs, and the names under which stores keep locks and counters.
///
/// All SyncGuard implementations compute the same bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace syncguard {

/// The longest key, in bytes of UTF-8 after normalisation.
inline constexpr std::size_t max_key_length_bytes = 512;

/// Brings a key to Unicode NFC and checks it. Throws `lock_error` (invalid_argument) if it is
/// empty, not valid UTF-8, or longer than `max_key_length_bytes` after normalisation.
[[nodiscard]] std::string normalize_and_validate_key(std::string_view key);

/// 24 hexadecimal digits that represent a key or a lock id in logs and events, the same in all
/// implementations of SyncGuard. Not cryptographic: short keys can be computed from their hashes,
/// and the hash of a lock id reveals 96 of its 128 bits. Show hashes only to those who may see the
/// values. Throws `lock_error` (invalid_argument) if `text` is not valid UTF-8.
[[nodiscard]] std::string hash_key(std::string_view text);

/// The maximum length of a store's keys, and how much of it is reserved for derived keys.
struct storage_key_budget {
    std::size_t limit_bytes;
    std::size_t reserve_bytes;
};

/// The name under which a store keeps `key`: `prefix:key`, or a hashed form of fixed length if that
/// does not fit. Throws `lock_error` (invalid_argument) if the key is empty, or if the prefix
/// leaves no room even for the hashed form.
[[nodiscard]] std::string make_storage_key(std::string_view prefix, std::string_view key,
                                           storage_key_budget budget);

/// The name under which a store keeps the fence counter of a lock. It is derived from the lock's
/// storage key, not from the user's key, so that each lock has exactly one counter.
[[nodiscard]] std::string make_fence_key(std::string_view prefix, std::string_view lock_storage_key,
                                         storage_key_budget budget);

}  // namespace syncguard
