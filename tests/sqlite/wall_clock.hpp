/// Steps the wall clock of the test program. Monotonic clocks are not changed.
#pragma once

#include <chrono>

namespace syncguard::test {

/// Steps the wall clock of this process for a scope, as an administrator or NTP steps a host's.
class wall_clock_step {
  public:
    explicit wall_clock_step(std::chrono::nanoseconds step);
    wall_clock_step(const wall_clock_step&) = delete;
    wall_clock_step& operator=(const wall_clock_step&) = delete;
    ~wall_clock_step();
};

}  // namespace syncguard::test
