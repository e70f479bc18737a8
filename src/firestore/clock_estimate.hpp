/// Estimates the difference between the clocks of this host and of the server. Pure: times are
/// arguments.
#pragma once

#include <syncguard/firestore.hpp>
#include <syncguard/time.hpp>

#include <chrono>
#include <optional>

namespace syncguard::firestore {

/// Each answer contains the server's time in whole seconds, at some moment between the request and
/// the arrival of the answer. So it gives a lower and an upper bound of the difference. The bounds
/// of many answers are intersected; older bounds are widened, because clocks drift.
class clock_estimate {
  public:
    /// `sent` and `received` are by this host's clock.
    void add(std::chrono::sys_seconds date, unix_time sent, unix_time received);

    /// As of the last answer; nothing before the first.
    [[nodiscard]] std::optional<clock_skew> value() const;

    /// The smallest absolute difference that is consistent with the answers, if each of the last
    /// two answers confirmed it; else zero, because a single wrong answer proves nothing.
    [[nodiscard]] milliseconds confirmed() const;

  private:
    /// Finer than milliseconds, since the drift between two answers would otherwise be rounded to
    /// zero.
    struct bounds {
        std::chrono::nanoseconds at_least;
        std::chrono::nanoseconds at_most;
    };
    [[nodiscard]] bounds aged(unix_time now) const;
    [[nodiscard]] static bounds intersection(const bounds& one, const bounds& other);

    std::optional<bounds> bounds_;
    unix_time as_of_{};
    /// The number of consecutive answers, up to the latest, after each of which a difference large
    /// enough for a warning was proven.
    unsigned proofs_ = 0;
};

/// How long to wait before the next request, so that its answer halves the range between the
/// bounds: until the next second of the server's clock, assuming the middle of the range. Less than
/// a second.
[[nodiscard]] milliseconds pause_before_question(const clock_skew& skew, unix_time now);

}  // namespace syncguard::firestore
