/// The clocks of locks and leases, and the liveness rule.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>

namespace syncguard {

using std::chrono::milliseconds;

/// A time by the store's clock, in milliseconds since 1970 (`expiresAtMs`, `acquiredAtMs`).
using unix_time = std::chrono::sys_time<milliseconds>;

/// The clock of an embedded store. An empty function means the host's clock.
using wall_clock = std::function<unix_time()>;

/// A lock is live for this time after its expiry, to allow for differences between clocks. Not
/// configurable: engines must agree on liveness.
inline constexpr milliseconds time_tolerance{1000};

/// The liveness predicate. All engines use it, in all operations.
[[nodiscard]] constexpr bool is_live(unix_time expires_at, unix_time now) noexcept {
    return expires_at > now - time_tolerance;
}

/// How long after `now` a lock can still be live if no client changes it. `expires_at` may have any
/// value, since it may come from another program.
[[nodiscard]] constexpr milliseconds longest_life(unix_time expires_at, unix_time now) noexcept {
    constexpr milliseconds most = std::chrono::years{100};
    return std::clamp(expires_at, now - most, now + most) + time_tolerance - now;
}

/// The clock of lease deadlines (CLOCK_BOOTTIME). It never steps and, unlike
/// `std::chrono::steady_clock`, it goes on while the machine is suspended: after a suspension that
/// is longer than the TTL, the lease is not valid.
struct lease_clock {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<lease_clock>;
    static constexpr bool is_steady = true;

    [[nodiscard]] static time_point now() noexcept;
};

}  // namespace syncguard
