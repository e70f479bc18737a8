#include "clock_estimate.hpp"

#include <algorithm>

namespace syncguard::firestore {

namespace {

/// Clocks drift: what was learned long ago says nothing.
constexpr std::chrono::minutes longest_memory{10};

}  // namespace

void clock_estimate::add(std::chrono::sys_seconds date, unix_time sent, unix_time received) {
    // The server's clock showed something from `date` on, and less than the next second.
    const clock_skew seen{.at_least = unix_time(date) - received,
                          .at_most = unix_time(date) + milliseconds{999} - sent};
    // A clock that was set back or forth makes an answer nonsense, if it happened meanwhile.
    if (received < sent || seen.at_most < seen.at_least) return;
    const bool is_recent = received >= since_ && received - since_ < longest_memory;
    if (bounds_ && is_recent) {
        const clock_skew both{.at_least = std::max(bounds_->at_least, seen.at_least),
                              .at_most = std::min(bounds_->at_most, seen.at_most)};
        if (both.at_least <= both.at_most) {
            bounds_ = both;
            return;
        }
    }
    // One of the clocks was set since.
    bounds_ = seen;
    since_ = received;
}

milliseconds clock_skew::proven() const noexcept {
    if (at_least > milliseconds{0}) return at_least;
    return at_most < milliseconds{0} ? -at_most : milliseconds{0};
}

}  // namespace syncguard::firestore
