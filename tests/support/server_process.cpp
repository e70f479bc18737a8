#include "support/server_process.hpp"

#include "support/eventually.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace syncguard::test {

namespace {

/// Long enough for a virtual machine that shares two processors with a build.
constexpr std::chrono::seconds patience{60};

/// Runs in the forked child. Other threads of the test were not copied and may have held locks, so
/// that only system calls are allowed here.
[[noreturn]] void become(char* const* command, const char* log, pid_t parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    const int output = ::open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    // A copy of a test's socket would keep its connection open when the test closes it.
    ::close_range(STDERR_FILENO + 1, UINT_MAX, 0);
    ::execvp(command[0], command);
    constexpr char problem[] = "the program could not be executed\n";
    (void)!::write(STDERR_FILENO, problem, sizeof problem - 1);
    ::_exit(127);
}

}  // namespace

server_process::server_process(const std::vector<std::string>& command, std::filesystem::path log,
                               const std::function<bool()>& up)
    : log_(std::move(log)) {
    std::vector<char*> arguments;
    for (const auto& each : command)
        arguments.push_back(const_cast<char*>(each.c_str()));
    arguments.push_back(nullptr);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (pid_ == 0) become(arguments.data(), log_.c_str(), parent);

    bool ended = false;
    const bool is_up = eventually([&] { return (ended = has_ended()) || up(); }, patience);
    if (is_up && !ended) return;
    kill();
    std::ostringstream said;
    said << std::ifstream(log_).rdbuf();
    constexpr std::size_t enough = 2000;
    const std::string text = said.str();
    throw std::runtime_error(
        command.front() + (ended ? " ended at its start" : " did not answer in time") +
        "; its log ends with:\n" + text.substr(text.size() - std::min(text.size(), enough)));
}

server_process::~server_process() {
    kill();
}

bool server_process::has_ended() {
    if (::waitpid(pid_, nullptr, WNOHANG) != pid_) return false;
    pid_ = -1;
    return true;
}

void server_process::kill() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
}

}  // namespace syncguard::test
