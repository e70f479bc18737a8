/// Retry policy and backoff arithmetic, without clocks or sleeping.
#pragma once

#include <syncguard/time.hpp>

#include <limits>

namespace syncguard {

enum class backoff { exponential, fixed };

/// How much of a delay is random.
enum class jitter {
    equal,  ///< Half of the delay: between 50 % and 100 %.
    full,   ///< All of the delay: between 0 and 100 %.
    none,
};

/// How `lock()` retries contention.
struct retry_policy {
    static constexpr unsigned unlimited_retries = std::numeric_limits<unsigned>::max();

    unsigned max_retries = 10;
    milliseconds retry_delay{100};
    syncguard::backoff backoff = backoff::exponential;
    syncguard::jitter jitter = jitter::equal;
    /// Upper bound of a single delay.
    milliseconds max_delay = milliseconds::max();
};

/// The pause before retry number `retry` (the first is 1), never longer than `left`. `random` is a
/// number in [0, 1).
[[nodiscard]] milliseconds retry_pause(const retry_policy& policy, unsigned retry, double random,
                                       milliseconds left) noexcept;

}  // namespace syncguard
