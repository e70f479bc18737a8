/// Replaces the C library's clock_gettime, which all clocks of the C++ library call, in the test
/// program.
#include "sqlite/wall_clock.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>

namespace syncguard::test {
namespace {

std::atomic<std::int64_t> offset_ns{0};

}  // namespace

wall_clock_step::wall_clock_step(std::chrono::nanoseconds step) {
    offset_ns = step.count();
}

wall_clock_step::~wall_clock_step() {
    offset_ns = 0;
}

}  // namespace syncguard::test

extern "C" int clock_gettime(clockid_t clock, timespec* to) noexcept {
    constexpr std::int64_t ns_per_s = 1'000'000'000;
    const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, to));
    if (result != 0 || clock != CLOCK_REALTIME) return result;
    const std::int64_t now = to->tv_sec * ns_per_s + to->tv_nsec + syncguard::test::offset_ns;
    to->tv_sec = now / ns_per_s;
    to->tv_nsec = now % ns_per_s;
    return 0;
}
