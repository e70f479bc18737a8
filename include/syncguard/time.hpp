/// The clocks of a lock, and the one rule that says whether a lock is still alive.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>

namespace syncguard {

using std::chrono::milliseconds;

/// A point in the time of the store, in milliseconds since 1970 (`expiresAtMs`, `acquiredAtMs`).
using unix_time = std::chrono::sys_time<milliseconds>;

/// Tells the time of an embedded store. An empty function means the host's clock.
using wall_clock = std::function<unix_time()>;

/// Slack that every store grants to clocks. Not configurable: engines must agree on liveness.
inline constexpr milliseconds time_tolerance{1000};

/// The one liveness predicate. Every engine decides by it, in every operation.
[[nodiscard]] constexpr bool is_live(unix_time expires_at, unix_time now) noexcept {
    return expires_at > now - time_tolerance;
}

/// How long after `now` a lock can still be live if no client changes it. `expires_at` may have any
/// value, since it may come from another program.
[[nodiscard]] constexpr milliseconds longest_life(unix_time expires_at, unix_time now) noexcept {
    constexpr milliseconds most = std::chrono::years{100};
    return std::clamp(expires_at, now - most, now + most) + time_tolerance - now;
}

/// The clock by which a lease knows its own end. It never steps and, unlike
/// `std::chrono::steady_clock`, it goes on while the machine is suspended: a laptop that slept
/// through a TTL wakes up with a lease that says so.
struct lease_clock {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<lease_clock>;
    static constexpr bool is_steady = true;

    [[nodiscard]] static time_point now() noexcept;
};

}  // namespace syncguard
