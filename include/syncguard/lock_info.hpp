/// The result of a lookup.
#pragma once

#include <syncguard/capabilities.hpp>
#include <syncguard/fence.hpp>
#include <syncguard/time.hpp>

#include <string>

namespace syncguard {

/// A live lock, with hashes in place of the key and the lock id. The hashes identify the values,
/// but do not keep them secret: see `hash_key`.
template <capability_set Capabilities>
struct lock_info {
    std::string key_hash;
    std::string lock_id_hash;
    unix_time expires_at{};
    unix_time acquired_at{};
};

template <capability_set Capabilities>
requires(Capabilities::supports_fencing) struct lock_info<Capabilities> {
    std::string key_hash;
    std::string lock_id_hash;
    unix_time expires_at{};
    unix_time acquired_at{};
    syncguard::fence fence;
};

/// A live lock with its raw identifiers, for debugging only. SENSITIVE: with `lock_id`, any client
/// can release the lock. Returned only by `get_by_key_raw` and `get_by_id_raw`.
template <capability_set Capabilities>
struct lock_info_debug : lock_info<Capabilities> {
    std::string key;
    std::string lock_id;
};

}  // namespace syncguard
