/// Run by ctest before the tests on Firestore: starts their shared emulator in the background,
/// where it runs until ctest has ended. Writes its port to the file given as argument.
#include "support/firestore_emulator.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace {

constexpr int skipped = 77;

/// Closes everything inherited from ctest, which would otherwise wait for its pipes to be closed.
void become_a_daemon(int report) {
    ::setsid();
    const int nothing = ::open("/dev/null", O_RDWR);
    for (const int each : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        ::dup2(nothing, each);
    ::dup2(report, STDERR_FILENO + 1);
    ::close_range(STDERR_FILENO + 2, UINT_MAX, 0);
}

void publish(std::uint16_t port, const std::filesystem::path& file) {
    const std::filesystem::path unfinished = file.string() + ".new";
    std::ofstream(unfinished) << port << "\n";
    std::filesystem::rename(unfinished, file);
}

void run_daemon(pid_t ctest, const std::filesystem::path& file) {
    constexpr int report = STDERR_FILENO + 1;
    const int watched = static_cast<int>(::syscall(SYS_pidfd_open, ctest, 0));
    const syncguard::test::firestore_emulator emulator;
    publish(emulator.port(), file);
    (void)!::write(report, "+", 1);
    ::close(report);
    pollfd end{.fd = watched, .events = POLLIN, .revents = 0};
    while (watched >= 0 && ::poll(&end, 1, -1) < 0) {
    }
    std::filesystem::remove(file);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return 64;
    const std::filesystem::path file = argv[1];
    std::filesystem::remove(file);
    if (!syncguard::test::firestore_emulator::is_installed()) {
        std::puts(syncguard::test::no_emulator);
        const char* const required = std::getenv("SYNCGUARD_REQUIRE_FIRESTORE");
        return required != nullptr && std::string_view(required) == "1" ? 1 : skipped;
    }
    const pid_t ctest = ::getppid();
    std::array<int, 2> pipe{};
    if (::pipe(pipe.data()) != 0) return 1;
    const pid_t daemon = ::fork();
    if (daemon < 0) return 1;
    if (daemon == 0) {
        become_a_daemon(pipe[1]);
        try {
            run_daemon(ctest, file);
        } catch (const std::exception&) {
            ::_exit(1);
        }
        ::_exit(0);
    }
    ::close(pipe[1]);
    char ready = 0;
    if (::read(pipe[0], &ready, 1) == 1) return 0;
    std::puts("the Firestore emulator did not start");
    return 1;
}
