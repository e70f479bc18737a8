/// How far the clocks of this host and of the server are apart. Pure: times are handed in.
#pragma once

#include <syncguard/firestore.hpp>
#include <syncguard/time.hpp>

#include <chrono>
#include <optional>

namespace syncguard::firestore {

/// Each answer of the server tells its time, but in whole seconds, and for some moment between the
/// request and the arrival of the answer: it bounds the difference from both sides. Many answers
/// together bound it ever more closely. What was learned long ago bounds it less, because clocks
/// drift.
class clock_estimate {
  public:
    /// `sent` and `received` are by this host's clock.
    void add(std::chrono::sys_seconds date, unix_time sent, unix_time received);

    /// As of the last answer; nothing before the first.
    [[nodiscard]] std::optional<clock_skew> value() const;

    /// The smallest absolute difference that explains the answers, if each of the last two answers
    /// confirmed it; else zero, because a single wrong answer proves nothing.
    [[nodiscard]] milliseconds confirmed() const;

  private:
    /// Finer than what is shown, or the drift between two answers would be nothing.
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

/// How long to wait before the next question, so that its answer halves the bounds: until a second
/// of the server's clock begins, if the difference is in the middle between them. Less than a
/// second.
[[nodiscard]] milliseconds pause_before_question(const clock_skew& skew, unix_time now);

}  // namespace syncguard::firestore
