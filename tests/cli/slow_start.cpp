/// Loaded into `syncguard run` by tests: delays its child between the fork and the execution of the
/// command, as an overloaded host does, in the child's call of getppid(). With
/// SLOW_START_AT_EXECUTION it delays the execution itself, as a slow file system does.
///
/// With SLOW_START_UNTIL_SIGTERM the child blocks SIGTERM, and the delay ends when it arrives.
///
/// With STOP_AT_CLOCK_READ=N the process stops itself when its main thread reads CLOCK_BOOTTIME for
/// the Nth time after it has made a timer for that clock.
#include <signal.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace {

/// Delays only once, because the command inherits the environment.
void delay_once() {
    const char* marker = std::getenv("SLOW_START_MARKER");
    if (marker == nullptr || ::unlink(marker) != 0) return;
    const bool stops_parent = std::getenv("SLOW_START_STOPS_PARENT") != nullptr;
    if (stops_parent) ::kill(static_cast<pid_t>(::syscall(SYS_getppid)), SIGSTOP);
    const int delay_ms = std::atoi(std::getenv("SLOW_START_MS"));
    if (std::getenv("SLOW_START_UNTIL_SIGTERM") != nullptr) {
        sigset_t sigterm;
        ::sigemptyset(&sigterm);
        ::sigaddset(&sigterm, SIGTERM);
        ::sigprocmask(SIG_BLOCK, &sigterm, nullptr);
        const timespec limit{.tv_sec = delay_ms / 1000, .tv_nsec = 0};
        ::sigtimedwait(&sigterm, nullptr, &limit);
    } else {
        ::usleep(static_cast<useconds_t>(delay_ms) * 1000);
    }
    if (FILE* file = std::fopen(std::getenv("SLOW_START_PID_FILE"), "w")) {
        std::fprintf(file, "%d\n", static_cast<int>(::getpid()));
        std::fclose(file);
    }
}

bool delays_execution() {
    return std::getenv("SLOW_START_AT_EXECUTION") != nullptr;
}

}  // namespace

extern "C" pid_t getppid() {
    if (!delays_execution()) delay_once();
    return static_cast<pid_t>(::syscall(SYS_getppid));
}

extern "C" int execve(const char* file, char* const* arguments, char* const* variables) {
    if (delays_execution()) delay_once();
    return static_cast<int>(::syscall(SYS_execve, file, arguments, variables));
}

namespace {

std::atomic<int> reads_until_stop{0};

bool is_main_thread() {
    return ::getpid() == ::syscall(SYS_gettid);
}

}  // namespace

extern "C" int timerfd_create(int clock, int flags) {
    const char* const number = std::getenv("STOP_AT_CLOCK_READ");
    if (number != nullptr && clock == CLOCK_BOOTTIME && is_main_thread()) {
        reads_until_stop = std::atoi(number);
    }
    return static_cast<int>(::syscall(SYS_timerfd_create, clock, flags));
}

extern "C" int clock_gettime(clockid_t clock, timespec* time) {
    if (reads_until_stop > 0 && clock == CLOCK_BOOTTIME && is_main_thread() &&
        --reads_until_stop == 0) {
        if (FILE* file = std::fopen(std::getenv("SLOW_START_PID_FILE"), "w")) {
            std::fprintf(file, "%d\n", static_cast<int>(::getpid()));
            std::fclose(file);
        }
        ::kill(::getpid(), SIGSTOP);
    }
    return static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
}
