#include "firestore/clock_estimate.hpp"

#include <algorithm>

namespace syncguard::firestore {

namespace {

/// Drift per millisecond of clocks that are not adjusted: 50 ppm is much for the quartz of a
/// computer. If the drift is greater, answers contradict the estimate, which then starts anew.
constexpr std::chrono::nanoseconds drift{50};

}  // namespace

void clock_estimate::add(std::chrono::sys_seconds date, unix_time sent, unix_time received) {
    // The server's clock was in the second that begins at `date`.
    const bounds seen{.at_least = unix_time(date) - received,
                      .at_most = unix_time(date) + milliseconds{999} - sent};
    // If this host's clock was set between request and answer, the answer is useless.
    if (received < sent || seen.at_most < seen.at_least) return;
    const auto combined = bounds_ && received >= as_of_ ? intersection(aged(received), seen) : seen;
    // If the two ranges do not overlap, one of the clocks was set in between, or one of the answers
    // is wrong.
    const bool agrees = combined.at_least <= combined.at_most;
    bounds_ = agrees ? combined : seen;
    as_of_ = received;
    if (!agrees) proofs_ = 0;
    proofs_ = value()->proven() >= skew_to_warn_of ? proofs_ + 1 : 0;
}

clock_estimate::bounds clock_estimate::aged(unix_time now) const {
    const auto apart = (now - as_of_).count() * drift;
    return {.at_least = bounds_->at_least - apart, .at_most = bounds_->at_most + apart};
}

clock_estimate::bounds clock_estimate::intersection(const bounds& one, const bounds& other) {
    return {.at_least = std::max(one.at_least, other.at_least),
            .at_most = std::min(one.at_most, other.at_most)};
}

std::optional<clock_skew> clock_estimate::value() const {
    if (!bounds_) return std::nullopt;
    return clock_skew{.at_least = std::chrono::floor<milliseconds>(bounds_->at_least),
                      .at_most = std::chrono::ceil<milliseconds>(bounds_->at_most)};
}

milliseconds clock_estimate::confirmed() const {
    return proofs_ >= 2 ? value()->proven() : milliseconds{0};
}

milliseconds pause_before_question(const clock_skew& skew, unix_time now) {
    constexpr milliseconds second = std::chrono::seconds{1};
    const auto middle = skew.at_least + (skew.at_most - skew.at_least) / 2;
    const auto since_second = (now + middle).time_since_epoch() % second;
    return (second - since_second) % second;
}

milliseconds clock_skew::proven() const noexcept {
    if (at_least > milliseconds{0}) return at_least;
    return at_most < milliseconds{0} ? -at_most : milliseconds{0};
}

}  // namespace syncguard::firestore
