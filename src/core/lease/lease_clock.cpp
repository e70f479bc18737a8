#include <syncguard/time.hpp>

#include <ctime>

namespace syncguard {

lease_clock::time_point lease_clock::now() noexcept {
#ifdef CLOCK_BOOTTIME
    constexpr clockid_t clock = CLOCK_BOOTTIME;
#else
    constexpr clockid_t clock = CLOCK_MONOTONIC;
#endif
    timespec now{};
    ::clock_gettime(clock, &now);
    return time_point(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace syncguard
