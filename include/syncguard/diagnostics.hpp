/// Lookups of locks for diagnostics and monitoring.
///
/// Do not use these to guard a mutation: between the answer and the mutation another client may
/// acquire the lock. `release` and `extend` verify ownership themselves, atomically.
#pragma once

#include <syncguard/backend.hpp>

#include <optional>
#include <stop_token>
#include <string_view>
#include <utility>

namespace syncguard {

/// The live lock of a key, sanitised.
template <lock_backend B>
[[nodiscard]] auto get_by_key(const B& backend, std::string_view key,
                              const call_options& options = {}, std::stop_token stop = {}) {
    return backend.lookup(key_lookup{key}, options, std::move(stop));
}

/// The live lock with this id, sanitised.
template <lock_backend B>
[[nodiscard]] auto get_by_id(const B& backend, std::string_view lock_id,
                             const call_options& options = {}, std::stop_token stop = {}) {
    return backend.lookup(ownership_lookup{lock_id}, options, std::move(stop));
}

/// The live lock of a key with its raw identifiers. SENSITIVE: for debugging only.
template <lock_backend B>
[[nodiscard]] std::optional<lock_info_debug<typename B::capabilities_type>> get_by_key_raw(
    const B& backend, std::string_view key, const call_options& options = {},
    std::stop_token stop = {}) {
    return detail::access::raw<typename B::capabilities_type>(
        detail::access::core(backend).lookup_key(key, options, std::move(stop)));
}

/// The live lock with this id with its raw identifiers. SENSITIVE: for debugging only.
template <lock_backend B>
[[nodiscard]] std::optional<lock_info_debug<typename B::capabilities_type>> get_by_id_raw(
    const B& backend, std::string_view lock_id, const call_options& options = {},
    std::stop_token stop = {}) {
    return detail::access::raw<typename B::capabilities_type>(
        detail::access::core(backend).lookup_id(lock_id, options, std::move(stop)));
}

/// Whether the lock with this id is live.
template <lock_backend B>
[[nodiscard]] bool owns(const B& backend, std::string_view lock_id,
                        const call_options& options = {}, std::stop_token stop = {}) {
    return get_by_id(backend, lock_id, options, std::move(stop)).has_value();
}

}  // namespace syncguard
