/// A store clock that only a test moves.
#pragma once

#include <syncguard/time.hpp>

#include <atomic>
#include <memory>

namespace syncguard::test {

/// Copies share the same time.
class manual_clock {
  public:
    [[nodiscard]] unix_time now() const { return unix_time(milliseconds(*now_ms_)); }
    void advance(milliseconds step) { *now_ms_ += step.count(); }
    [[nodiscard]] wall_clock as_wall_clock() const {
        return [clock = *this] { return clock.now(); };
    }

  private:
    std::shared_ptr<std::atomic<milliseconds::rep>> now_ms_ =
        std::make_shared<std::atomic<milliseconds::rep>>(1'700'000'000'000);
};

}  // namespace syncguard::test
