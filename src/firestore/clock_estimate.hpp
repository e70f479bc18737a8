/// How far the clocks of this host and of the server are apart. Pure: times are handed in.
#pragma once

#include <syncguard/firestore.hpp>
#include <syncguard/time.hpp>

#include <chrono>
#include <optional>

namespace syncguard::firestore {

/// Each answer of the server tells its time, but in whole seconds, and for some moment between the
/// request and the arrival of the answer: it bounds the difference from both sides. Many answers
/// together bound it ever more closely.
class clock_estimate {
  public:
    /// `sent` and `received` are by this host's clock.
    void add(std::chrono::sys_seconds date, unix_time sent, unix_time received);

    /// Nothing before the first answer.
    [[nodiscard]] const std::optional<clock_skew>& value() const noexcept { return bounds_; }

  private:
    std::optional<clock_skew> bounds_;
    unix_time since_{};
};

}  // namespace syncguard::firestore
