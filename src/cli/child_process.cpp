#include "cli/child_process.hpp"

#include "cli/exit_codes.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
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

/// The null-terminated array for exec. It refers to `texts`.
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

/// The paths at which exec looks for a program of this name, in the order of PATH.
std::vector<std::string> candidates_for(const std::string& name) {
    if (name.empty() || name.find('/') != std::string::npos) return {name};
    const char* const variable = std::getenv("PATH");
    std::string_view folders = variable != nullptr ? variable : "/bin:/usr/bin";
    std::vector<std::string> files;
    while (true) {
        const auto end = folders.find(':');
        const auto folder = folders.substr(0, end);
        files.push_back(folder.empty() ? name : std::string(folder) + "/" + name);
        if (end == std::string_view::npos) return files;
        folders.remove_prefix(end + 1);
    }
}

/// The data that the child needs, prepared before the fork.
struct program_start {
    std::vector<char*> files;            ///< Candidates, ended by null.
    std::vector<char*> arguments;        ///< Ended by null.
    std::vector<char*> shell_arguments;  ///< For a script without "#!": sh, the file, the rest.
    std::vector<char*> variables;        ///< Ended by null.
};

/// Like execvpe(3), but each file is executed only before the deadline: on a slow file system, the
/// lookup of the first candidates may take longer than that. Returns the errno, or
/// `deadline_passed`. Async-signal-safe.
int exec_first_candidate(program_start& program, const shared_deadline& deadline) noexcept {
    int failure = ENOENT;
    for (char* const file : program.files) {
        if (file == nullptr) break;
        if (deadline.has_passed()) return child_process::deadline_passed;
        ::execve(file, program.arguments.data(), program.variables.data());
        if (errno == ENOEXEC) {
            if (deadline.has_passed()) return child_process::deadline_passed;
            program.shell_arguments[1] = file;
            ::execve("/bin/sh", program.shell_arguments.data(), program.variables.data());
        }
        const bool try_next_candidate = errno == ENOENT || errno == ENOTDIR || errno == EACCES ||
                                        errno == ESTALE || errno == ENODEV || errno == ETIMEDOUT;
        if (errno == EACCES || failure != EACCES) failure = errno;
        if (!try_next_candidate) break;
    }
    return failure;
}

/// Runs in the forked child, where only async-signal-safe calls are allowed.
[[noreturn]] void execute(program_start& program, pid_t parent, int report_to,
                          const signal_queue& signals, const shared_deadline& deadline) noexcept {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    // If the parent died before prctl, that signal is never sent.
    if (::getppid() != parent) ::_exit(exit_code::lost);
    signals.restore_inherited();
    const int failure = exec_first_candidate(program, deadline);
    (void)!::write(report_to, &failure, sizeof failure);
    ::_exit(exit_code::of_exec_failure(failure));
}

/// Nullopt if the pipe was closed by a successful exec. Does not block after the end of the child.
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
                             const signal_queue& signals, const shared_deadline& deadline) {
    auto arguments = command;
    auto merged = merge_with_inherited(variables);
    auto files = candidates_for(command.front());
    std::string shell = "sh";
    program_start program{.files = null_terminated(files),
                          .arguments = null_terminated(arguments),
                          .shell_arguments = {shell.data()},
                          .variables = null_terminated(merged)};
    program.shell_arguments.insert(program.shell_arguments.end(), program.arguments.begin(),
                                   program.arguments.end());
    auto report = make_pipe();
    const pid_t parent = ::getpid();

    // `_Fork` runs no fork handlers: the child only executes the command, and a handler might wait
    // for a renewal in flight.
    pid_ = ::_Fork();  // NOLINT(cppcoreguidelines-prefer-member-initializer): all is ready by now
    if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (pid_ == 0) {
        execute(program, parent, report.write_end.get(), signals, deadline);
    }
    start_report_ = std::move(report.read_end);
}

child_process::~child_process() {
    if (exit_code_ || pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

std::optional<refused_signal> child_process::forward(const arrived_signal& signal) noexcept {
    if (signal.from_kernel && ::getpgid(pid_) == ::getpgrp()) {
        // Exception: when the terminal disconnects, the kernel sends SIGHUP only to the session
        // leader.
        const bool leader_only = signal.number == SIGHUP && ::getsid(0) == ::getpid();
        if (!leader_only) return std::nullopt;
    }
    signal_command(signal.number);
    return take_refused();
}

void child_process::terminate() noexcept {
    // Not earlier: a daemon that the command starts on purpose should be adopted by init.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    ending_signal_ = SIGTERM;
    signal_command(SIGTERM);
}

void child_process::kill() noexcept {
    ending_signal_ = SIGKILL;
    signal_command(SIGKILL);
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
        // The ended process may have left children, which this process has adopted.
        signal_leftovers(ending_signal_);
    }
}

void child_process::signal_command(int signal) noexcept {
    if (!exit_code_) send(pid_, signal);
}

void child_process::send(pid_t process, int signal) noexcept {
    if (::kill(process, signal) != 0) refused_ = {.process = process, .error = errno};
}

void child_process::signal_leftovers(int signal) noexcept {
    try {
        const auto self = std::to_string(::getpid());
        std::ifstream children("/proc/self/task/" + self + "/children");
        for (pid_t each = 0; children >> each;) {
            if (each != pid_) send(each, signal);
        }
    } catch (const std::exception&) {
        // Without enough memory or /proc, only the command gets the signal.
    }
}

}  // namespace syncguard::cli
