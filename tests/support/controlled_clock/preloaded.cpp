/// Preloaded into a server (LD_PRELOAD): replaces the host's wall clock by a test's clock.
/// Monotonic clocks are not replaced, because tests do not control the server's own timers and
/// timeouts.
#include "support/controlled_clock/clock_page.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>

namespace {

using syncguard::test::clock_page;

constexpr std::int64_t us_per_s = 1'000'000;

const clock_page* map_page() {
    const char* path = std::getenv(syncguard::test::clock_page_variable);
    const int file = path == nullptr ? -1 : ::open(path, O_RDONLY | O_CLOEXEC);
    void* const page =
        file < 0 ? MAP_FAILED : ::mmap(nullptr, sizeof(clock_page), PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) {
        // If the server used the host's clock by mistake, the test would fail later for no obvious
        // reason.
        constexpr char problem[] = "the controlled clock found no page to read\n";
        (void)!::write(STDERR_FILENO, problem, sizeof problem - 1);
        std::abort();
    }
    ::close(file);
    return static_cast<const clock_page*>(page);
}

/// Uses the system call, because this file replaces the C library's function.
int host_time(clockid_t clock, timespec* to) {
    return static_cast<int>(::syscall(SYS_clock_gettime, clock, to));
}

std::int64_t controlled_time_us() {
    static const clock_page* const page = map_page();
    if (const auto frozen = page->frozen_at.load()) return frozen;
    timespec host{};
    host_time(CLOCK_REALTIME, &host);
    return host.tv_sec * us_per_s + host.tv_nsec / 1000 + page->offset.load();
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* to) noexcept {
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return host_time(clock, to);
    const auto now = controlled_time_us();
    to->tv_sec = now / us_per_s;
    to->tv_nsec = now % us_per_s * 1000;
    return 0;
}

int gettimeofday(timeval* to, void* /*zone*/) noexcept {
    const auto now = controlled_time_us();
    to->tv_sec = now / us_per_s;
    to->tv_usec = now % us_per_s;
    return 0;
}

time_t time(time_t* to) noexcept {
    const time_t now = controlled_time_us() / us_per_s;
    if (to != nullptr) *to = now;
    return now;
}
}
