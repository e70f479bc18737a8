/// One lock that goes from hand to hand among many processes, and how long each hand-off takes.
#pragma once

#include <syncguard/backend.hpp>

#include <cstddef>
#include <functional>

namespace syncguard::bench {

struct crowd {
    int processes;
    int threads_each;
    /// How long each keeps the lock: mostly just long enough for those who lost to settle down to
    /// wait again.
    std::chrono::microseconds in_hand{500};
};

/// From the moment in which a release begins to that in which the next acquisition, in another
/// process, has returned.
struct hand_off_times {
    double median_us;
    double p99_us;
    std::size_t acquisitions;  ///< Those of the same process included.
};

/// How one of the crowd takes the lock.
using taking = std::function<lease<any_capabilities>(const any_backend& locks)>;

/// Lets the crowd pass the lock on so many times between processes. `open` is called in each
/// process; `meanwhile` again and again in this one. Throws `std::runtime_error` if a process
/// fails.
hand_off_times measure_hand_offs(const std::function<any_backend()>& open, const taking& take,
                                 crowd waiting, std::size_t hand_offs,
                                 const std::function<void()>& meanwhile = {});

}  // namespace syncguard::bench
