/// The memory that a controlled clock shares with the process it controls: one mapped file.
#pragma once

#include <atomic>
#include <cstdint>

namespace syncguard::test {

/// All times are in microseconds. A file of zeros means the host's clock.
struct clock_page {
    /// The time since 1970 at which the clock stands still; 0 if it runs.
    std::atomic<std::int64_t> frozen_at;
    /// How far a running clock is ahead of the host's.
    std::atomic<std::int64_t> offset;
};

static_assert(std::atomic<std::int64_t>::is_always_lock_free, "two processes share the page");

/// The environment variable with the path of the file.
inline constexpr char clock_page_variable[] = "SYNCGUARD_CLOCK_PAGE";

}  // namespace syncguard::test
