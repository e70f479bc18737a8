/// One lock that many processes acquire in turn, and how long each hand-off takes.
#pragma once

#include <syncguard/backend.hpp>

#include <cstddef>
#include <functional>

namespace syncguard::bench {

struct crowd {
    int processes;
    int threads_each;
    /// How long each thread holds the lock: by default just long enough for the others to begin
    /// waiting again.
    std::chrono::microseconds in_hand{500};
};

/// The time from the beginning of a release to the return of the next acquisition in another
/// process.
struct hand_off_times {
    double median_us;
    double p99_us;
    std::size_t acquisitions;  ///< Including those by the process that released.
};

/// How a thread acquires the lock.
using taking = std::function<lease<any_capabilities>(const any_backend& locks)>;

/// Measures `hand_offs` hand-offs of the lock between processes. Calls `open` in each process, and
/// `meanwhile` repeatedly in this one. Throws `std::runtime_error` if a process fails.
hand_off_times measure_hand_offs(const std::function<any_backend()>& open, const taking& take,
                                 crowd waiting, std::size_t hand_offs,
                                 const std::function<void()>& meanwhile = {});

}  // namespace syncguard::bench
