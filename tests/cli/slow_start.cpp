/// Loaded into `syncguard run` by tests: delays its child between the fork and the execution of the
/// command, as a starved host does. The child calls getppid() there.
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

extern "C" pid_t getppid() {
    const auto parent = static_cast<pid_t>(::syscall(SYS_getppid));
    const char* marker = std::getenv("SLOW_START_MARKER");
    // Once: the command has the same environment.
    if (marker == nullptr || ::unlink(marker) != 0) return parent;
    const bool stops_parent = std::getenv("SLOW_START_STOPS_PARENT") != nullptr;
    if (stops_parent) ::kill(parent, SIGSTOP);
    ::usleep(static_cast<useconds_t>(std::atoi(std::getenv("SLOW_START_MS"))) * 1000);
    if (FILE* file = std::fopen(std::getenv("SLOW_START_PID_FILE"), "w")) {
        std::fprintf(file, "%d\n", static_cast<int>(::getpid()));
        std::fclose(file);
    }
    return parent;
}
