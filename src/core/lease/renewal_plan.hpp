/// Decides when a lease is renewed, and when it is lost. Pure: no clock, no I/O.
#pragma once

#include <syncguard/time.hpp>

namespace syncguard {

/// The time of the next renewal: a third of the way from `renewed_at` to `deadline`, rounded down
/// to a grid, so that thousands of leases are renewed in few batches.
[[nodiscard]] lease_clock::time_point renewal_time(lease_clock::time_point renewed_at,
                                                   lease_clock::time_point deadline) noexcept;

/// The pause after a renewal that failed. `span` is the time from the last renewal to the deadline.
[[nodiscard]] milliseconds renewal_retry_pause(milliseconds span) noexcept;

/// The timeout of one renewal: short enough to leave time for further attempts if a request is
/// lost.
[[nodiscard]] milliseconds renewal_timeout(milliseconds span) noexcept;

/// State of a monitored lease.
struct renewal_plan {
    lease_clock::time_point renewed_at;
    lease_clock::time_point deadline;
    bool is_renewed = false;  ///< If not, the lease is only watched.
    bool renewal_under_way = false;
    /// After a renewal that failed.
    lease_clock::time_point retry_not_before{};
};

struct renewal_step {
    enum class kind { wait, renew, give_up } action{};
    /// When to call `next_step` again, unless an event comes first.
    lease_clock::time_point until;
};

[[nodiscard]] renewal_step next_step(const renewal_plan& plan,
                                     lease_clock::time_point now) noexcept;

}  // namespace syncguard
