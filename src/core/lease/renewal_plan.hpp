/// When a lease is renewed, and when it is given up for lost. Pure: times come in, times go out.
#pragma once

#include <syncguard/time.hpp>

namespace syncguard {

/// When a lease is renewed that was last renewed at `renewed_at` and ends at `deadline`: after a
/// third of that time or a little earlier, at a time that it shares with others, so that thousands
/// renew in few batches.
[[nodiscard]] lease_clock::time_point renewal_time(lease_clock::time_point renewed_at,
                                                   lease_clock::time_point deadline) noexcept;

/// The pause after a renewal that failed. `span` is the time from the last renewal to the deadline.
[[nodiscard]] milliseconds renewal_retry_pause(milliseconds span) noexcept;

/// How long one renewal may take: short enough that a request that got lost leaves time for
/// another.
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
    /// When to look again, if nothing happens until then.
    lease_clock::time_point until;
};

[[nodiscard]] renewal_step next_step(const renewal_plan& plan,
                                     lease_clock::time_point now) noexcept;

}  // namespace syncguard
