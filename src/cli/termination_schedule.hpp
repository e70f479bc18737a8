/// When `run` ends its command because its lock is not renewed or is lost. Pure: no clock, no I/O.
#pragma once

#include <syncguard/time.hpp>

namespace syncguard::cli {

/// The times at which the command is ended before the lease's deadline.
struct termination_schedule {
    /// SIGTERM, if there was no renewal by this time.
    lease_clock::time_point terminate_at;
    /// SIGKILL: early enough that the command ends before another client can acquire the lock.
    lease_clock::time_point kill_at;
};

/// `deadline` is the deadline of a lease that was granted or extended `ttl` earlier.
[[nodiscard]] termination_schedule schedule_termination(lease_clock::time_point deadline,
                                                        milliseconds ttl) noexcept;

/// When to kill a command whose lock was found to be gone at `now`: another client may hold it
/// already, so the command has only a short time to end by itself.
[[nodiscard]] lease_clock::time_point kill_time_after_loss(lease_clock::time_point now,
                                                           lease_clock::time_point deadline,
                                                           milliseconds ttl) noexcept;

}  // namespace syncguard::cli
