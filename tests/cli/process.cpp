#include "cli/process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace syncguard::cli::test {

namespace {

std::filesystem::path unused_file(const std::filesystem::path& folder, const char* suffix) {
    static int count = 0;
    return folder / (std::to_string(++count) + "." + suffix);
}

void redirect(const std::filesystem::path& file, int flags, int target) {
    const int opened = ::open(file.c_str(), flags, 0600);
    ::dup2(opened, target);
    ::close(opened);
}

}  // namespace

bool is_gone(pid_t pid) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    if (!std::getline(stat, text)) return true;
    const auto after_name = text.rfind(')');
    return after_name == std::string::npos || text.substr(after_name + 2, 1) == "Z";
}

std::string contents(const std::filesystem::path& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
}

process::process(const std::filesystem::path& folder, const std::vector<std::string>& command,
                 const start_options& options)
    : out_(unused_file(folder, "out")), err_(unused_file(folder, "err")) {
    const auto in = unused_file(folder, "in");
    std::ofstream(in) << options.input;
    std::vector<char*> arguments;
    for (const auto& each : command)
        arguments.push_back(const_cast<char*>(each.c_str()));
    arguments.push_back(nullptr);

    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("fork failed");
    if (pid_ != 0) return;

    // The test program has one thread, so that the child may call any function here.
    for (const auto& [name, value] : options.environment)
        ::setenv(name.c_str(), value.c_str(), 1);
    redirect(in, O_RDONLY, STDIN_FILENO);
    redirect(out_, O_WRONLY | O_CREAT | O_APPEND, STDOUT_FILENO);
    redirect(err_, O_WRONLY | O_CREAT | O_APPEND, STDERR_FILENO);
    if (options.terminal) {
        ::setsid();
        ::ioctl(*options.terminal, TIOCSCTTY, 0);
        ::dup2(*options.terminal, STDIN_FILENO);
    }
    for (const int signal : options.ignored_signals)
        ::signal(signal, SIG_IGN);
    if (options.user && (::setgid(*options.user) != 0 || ::setuid(*options.user) != 0)) {
        ::_exit(255);
    }
    ::execvp(arguments[0], arguments.data());
    ::_exit(255);
}

process::~process() {
    if (!running()) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
}

void process::signal(int number) const {
    ASSERT_EQ(0, ::kill(pid_, number));
}

bool process::running() {
    if (status_) return false;
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return true;
    status_ = status;
    return false;
}

finished process::wait(milliseconds limit) {
    if (!eventually([this] { return !running(); }, limit)) {
        ADD_FAILURE() << "the process did not end in time; it said:\n" << out() << err();
        return {};
    }
    finished result{.exit_code = -1, .signal = 0, .out = out(), .err = err()};
    if (WIFEXITED(*status_)) result.exit_code = WEXITSTATUS(*status_);
    if (WIFSIGNALED(*status_)) result.signal = WTERMSIG(*status_);
    return result;
}

}  // namespace syncguard::cli::test
