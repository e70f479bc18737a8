/// Access of the typed API to its untyped implementation. Not part of the API.
#pragma once

#include <syncguard/detail/backend_core.hpp>
#include <syncguard/key.hpp>
#include <syncguard/lease.hpp>
#include <syncguard/lock_info.hpp>

#include <memory>
#include <utility>

namespace syncguard::detail {

struct access {
    template <class Backend>
    [[nodiscard]] static const backend_core& core(const Backend& backend) noexcept {
        return *backend.core_;
    }

    template <class Capabilities>
    [[nodiscard]] static lease_core& core(lease<Capabilities>& held) noexcept {
        return *held.core_;
    }

    template <class Capabilities>
    [[nodiscard]] static acquire_result<Capabilities> result(std::shared_ptr<lease_core> core) {
        if (!core) return {};
        return acquire_result<Capabilities>(lease<Capabilities>(std::move(core)));
    }

    template <class Capabilities>
    [[nodiscard]] static std::optional<lock_info<Capabilities>> sanitized(
        const std::optional<lock_record>& record) {
        if (!record) return std::nullopt;
        lock_info<Capabilities> info;
        fill(info, *record);
        return info;
    }

    template <class Capabilities>
    [[nodiscard]] static std::optional<lock_info_debug<Capabilities>> raw(
        std::optional<lock_record> record) {
        if (!record) return std::nullopt;
        lock_info_debug<Capabilities> info;
        fill(info, *record);
        info.key = std::move(record->key);
        info.lock_id = record->id.to_string();
        return info;
    }

  private:
    template <class Capabilities>
    static void fill(lock_info<Capabilities>& info, const lock_record& record) {
        info.key_hash = hash_key(record.key);
        info.lock_id_hash = hash_key(record.id.str());
        info.expires_at = record.expires_at;
        info.acquired_at = record.acquired_at;
        if constexpr (Capabilities::supports_fencing) info.fence = record.fence;
    }
};

}  // namespace syncguard::detail
