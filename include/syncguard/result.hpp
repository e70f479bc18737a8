/// Results of operations: success or a domain outcome. System failures are exceptions.
#pragma once

#include <syncguard/time.hpp>

#include <optional>
#include <string_view>

namespace syncguard {

/// Why an operation did not succeed. `expired` and `not_found` appear in telemetry only.
enum class failure_reason { locked, expired, not_found };

/// "locked", "expired" or "not-found".
[[nodiscard]] constexpr std::string_view to_string(failure_reason reason) noexcept {
    switch (reason) {
        case failure_reason::locked:
            return "locked";
        case failure_reason::expired:
            return "expired";
        case failure_reason::not_found:
            return "not-found";
    }
    return "";
}

/// Whether this call released the lock. `ok == false`: the lock was no longer held, and nothing was
/// changed.
struct release_result {
    bool ok = false;
    explicit operator bool() const noexcept { return ok; }
};

/// Whether the lock was extended, and its new end by the store's clock.
struct [[nodiscard]] extend_result {
    bool ok = false;
    unix_time expires_at{};  ///< Meaningful when `ok`.
    explicit operator bool() const noexcept { return ok; }
};

}  // namespace syncguard
