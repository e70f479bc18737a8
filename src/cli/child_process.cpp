#include "child_process.hpp"

#include "exit_codes.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <string_view>

namespace syncguard::cli {

namespace {

std::vector<std::string> merge_with_inherited(const environment& variables) {
    std::vector<std::string> merged;
    for (char** each = environ; *each != nullptr; ++each) {
        const std::string_view entry(*each);
        const auto name = entry.substr(0, entry.find('='));
        const bool replaced = std::any_of(variables.begin(), variables.end(),
                                          [&](const auto& own) { return own.first == name; });
        if (!replaced) merged.emplace_back(entry);
    }
    for (const auto& [name, value] : variables) {
        merged.emplace_back(name).append("=").append(value);
    }
    return merged;
}

/// The array that exec wants. It refers to `texts`.
std::vector<char*> null_terminated(std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    pointers.reserve(texts.size() + 1);
    for (auto& text : texts) {
        pointers.push_back(text.data());
    }
    pointers.push_back(nullptr);
    return pointers;
}

struct pipe_ends {
    file_descriptor read_end;
    file_descriptor write_end;
};

pipe_ends make_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        throw std::system_error(errno, std::generic_category(), "pipe");
    }
    return {.read_end = {ends[0], "pipe"}, .write_end = {ends[1], "pipe"}};
}

/// Runs in the forked child, where only async-signal-safe calls are allowed.
[[noreturn]] void execute(char** arguments, char** variables, pid_t parent, int report_to,
                          const signal_inbox& signals, const shared_deadline& deadline) noexcept {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    // If the parent died before that, nobody will tell.
    if (::getppid() != parent) ::_exit(exit_code::lost);
    signals.restore_inherited();
    int failure = child_process::deadline_passed;
    if (!deadline.has_passed()) {
        ::execvpe(arguments[0], arguments, variables);
        failure = errno;
    }
    (void)!::write(report_to, &failure, sizeof failure);
    ::_exit(exit_code::of_exec_failure(failure));
}

/// Nothing if the pipe was closed by a successful exec. Does not wait once the child has ended.
std::optional<int> read_start_failure(int pipe_end) {
    int failure = 0;
    ssize_t got = 0;
    do {
        got = ::read(pipe_end, &failure, sizeof failure);
    } while (got < 0 && errno == EINTR);
    if (got != static_cast<ssize_t>(sizeof failure)) return std::nullopt;
    return failure;
}

}  // namespace

child_process::child_process(const std::vector<std::string>& command, const environment& variables,
                             const signal_inbox& signals, const shared_deadline& deadline) {
    auto arguments = command;
    auto merged = merge_with_inherited(variables);
    auto argument_pointers = null_terminated(arguments);
    auto variable_pointers = null_terminated(merged);
    auto report = make_pipe();
    const pid_t parent = ::getpid();

    // Without fork handlers: the child only executes the command, and a handler might wait for a
    // renewal that is under way.
    pid_ = ::_Fork();  // NOLINT(cppcoreguidelines-prefer-member-initializer): all is ready by now
    if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (pid_ == 0) {
        execute(argument_pointers.data(), variable_pointers.data(), parent, report.write_end.get(),
                signals, deadline);
    }
    start_report_ = std::move(report.read_end);
}

child_process::~child_process() {
    if (exit_code_ || pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

void child_process::forward(const arrived_signal& signal) const noexcept {
    if (exit_code_) return;
    if (signal.from_kernel && ::getpgid(pid_) == ::getpgrp()) {
        // One exception: when the line is cut, only the leader of the session is told.
        const bool leader_only = signal.number == SIGHUP && ::getsid(0) == ::getpid();
        if (!leader_only) return;
    }
    ::kill(pid_, signal.number);
}

void child_process::terminate() noexcept {
    // Not earlier: a daemon that the command leaves behind on purpose belongs to init.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    ending_signal_ = SIGTERM;
    if (!exit_code_) ::kill(pid_, SIGTERM);
}

void child_process::kill() noexcept {
    ending_signal_ = SIGKILL;
    if (!exit_code_) ::kill(pid_, SIGKILL);
    signal_leftovers(SIGKILL);
}

bool child_process::reap() {
    while (true) {
        int status = 0;
        const pid_t ended = ::waitpid(ending_signal_ == 0 ? pid_ : -1, &status, WNOHANG);
        if (ended <= 0) return exit_code_ && (ending_signal_ == 0 || ended < 0);
        if (ended == pid_) {
            exit_code_ =
                WIFSIGNALED(status) ? exit_code::of_signal(WTERMSIG(status)) : WEXITSTATUS(status);
            start_failure_ = read_start_failure(start_report_->get());
            if (ending_signal_ == 0) return true;
        }
        // Whatever ended may have left children of its own, which are ours now.
        signal_leftovers(ending_signal_);
    }
}

void child_process::signal_leftovers(int signal) const noexcept {
    try {
        const auto self = std::to_string(::getpid());
        std::ifstream children("/proc/self/task/" + self + "/children");
        for (pid_t each = 0; children >> each;) {
            if (each != pid_) ::kill(each, signal);
        }
    } catch (const std::exception&) {
        // Without memory or /proc, the command itself still gets its signals.
    }
}

}  // namespace syncguard::cli
