/// The clock of a lock file: boot id and CLOCK_BOOTTIME. It never steps and is the same for all
/// processes of a host.
#pragma once

#include <syncguard/time.hpp>

#include <cstdint>
#include <string>

namespace syncguard::sqlite {

/// When a lock was granted or last extended, and when it ends. Milliseconds of CLOCK_BOOTTIME.
struct lock_period {
    /// The boot that the times belong to. Empty: the process that wrote them did not know it.
    std::string boot_id;
    std::int64_t began_ms = 0;
    std::int64_t ends_ms = 0;
};

/// The current boot id and CLOCK_BOOTTIME of the host.
struct host_time {
    std::string boot_id;
    std::int64_t boot_ms = 0;

    [[nodiscard]] lock_period period(milliseconds ttl) const {
        return {boot_id, boot_ms, boot_ms + ttl.count()};
    }
};

/// Time until the lock is no longer live, the tolerance included; zero or less if it has expired.
/// Locks of another boot have expired. If either boot id is unknown, a lock counts as one of
/// another boot only if `began_ms` is later than now.
[[nodiscard]] milliseconds remaining_life(const lock_period& period, const host_time& now) noexcept;

class host_clock {
  public:
    /// Reads the boot id and the offset of the time namespace. Throws `lock_error`
    /// (service_unavailable) if the offset cannot be read.
    host_clock();
    /// Replaces the clock of the host, for tests.
    explicit host_clock(wall_clock replacement);

    [[nodiscard]] host_time now() const;
    /// For display only.
    [[nodiscard]] unix_time wall_now() const;

  private:
    wall_clock replacement_;
    std::string boot_id_;
    /// Offset of this process's time namespace from CLOCK_BOOTTIME of the host.
    std::chrono::nanoseconds namespace_offset_{0};
};

}  // namespace syncguard::sqlite
