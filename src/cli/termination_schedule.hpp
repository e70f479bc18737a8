/// When `run` gives its lock up for lost, and ends its command. Pure: times come in, times go out.
#pragma once

#include <syncguard/time.hpp>

namespace syncguard::cli {

/// What a lease's end means for the command that runs under it.
struct termination_schedule {
    /// Without a renewal until now, the command must begin to end.
    lease_clock::time_point terminate_at;
    /// And now it must be gone: no other client can have the lock before the lease's end.
    lease_clock::time_point kill_at;
};

/// `deadline` is the end of a lease that was granted or extended `ttl` earlier.
[[nodiscard]] termination_schedule schedule_termination(lease_clock::time_point deadline,
                                                        milliseconds ttl) noexcept;

/// When to kill a command whose lock turned out to be gone at `now`: another client may hold it
/// already, so the command has only a moment to end by itself.
[[nodiscard]] lease_clock::time_point kill_time_after_loss(lease_clock::time_point now,
                                                           lease_clock::time_point deadline,
                                                           milliseconds ttl) noexcept;

}  // namespace syncguard::cli
