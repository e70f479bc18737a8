#include <syncguard/retry.hpp>

#include <algorithm>
#include <cmath>

namespace syncguard {

milliseconds retry_pause(const retry_policy& policy, unsigned retry, double random,
                         milliseconds left) noexcept {
    auto pause = static_cast<double>(policy.retry_delay.count());
    if (policy.backoff == backoff::exponential) {
        pause = std::ldexp(pause, static_cast<int>(std::min(retry, 1000U)) - 1);
    }
    pause = std::min(pause, static_cast<double>(policy.max_delay.count()));
    if (policy.jitter == jitter::equal) pause = pause / 2 + random * pause / 2;
    if (policy.jitter == jitter::full) pause = random * pause;

    const auto bound = std::max(left, milliseconds{0});
    if (pause >= static_cast<double>(bound.count())) return bound;
    return milliseconds(static_cast<milliseconds::rep>(pause));
}

}  // namespace syncguard
