/// `bounded_wait`: limits durations, so that they can be added to any time without overflow.
#pragma once

#include <syncguard/time.hpp>

#include <algorithm>

namespace syncguard {

/// `wanted`, limited to the range from zero to a year: adding `milliseconds::max()` or
/// `milliseconds::min()` to the present time overflows.
[[nodiscard]] constexpr milliseconds bounded_wait(milliseconds wanted) noexcept {
    return std::clamp(wanted, milliseconds{0}, milliseconds{std::chrono::years{1}});
}

}  // namespace syncguard
