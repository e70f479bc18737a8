/// Exponential backoff before a server that could not be reached is tried again. Pure.
#pragma once

#include <syncguard/time.hpp>

#include <algorithm>

namespace syncguard::net {

inline constexpr milliseconds first_reconnect_delay{50};
inline constexpr milliseconds max_reconnect_delay{1'000};

/// The delay after this number of consecutive failures, which is at least 1.
[[nodiscard]] inline milliseconds reconnect_delay(unsigned failures) {
    const auto factor = 1U << std::min(failures - 1, 10U);
    return std::min(first_reconnect_delay * factor, max_reconnect_delay);
}

}  // namespace syncguard::net
