/// The command that `run` runs: starting it, signalling it, and learning how it ended.
#pragma once

#include "signal_inbox.hpp"

#include <sys/types.h>

#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace syncguard::cli {

/// The command could not be executed; `code()` says why.
class cannot_execute : public std::system_error {
  public:
    using std::system_error::system_error;
};

/// Variables that are set for the command, beside what this process inherited.
using environment = std::vector<std::pair<std::string, std::string>>;

class child_process {
  public:
    /// Starts `command` (never empty) with the standard streams, signal mask and signal
    /// dispositions that this process inherited. Throws `cannot_execute` if it is not there or
    /// cannot be run, `std::system_error` if no process could be made.
    ///
    /// The command gets SIGTERM when this process dies, even by SIGKILL: nobody would renew its
    /// lock any more.
    child_process(const std::vector<std::string>& command, const environment& variables,
                  const signal_inbox& signals);
    child_process(const child_process&) = delete;
    child_process& operator=(const child_process&) = delete;
    /// Ends a command that still runs: it must not outlive its lock.
    ~child_process();

    /// Hands a signal on. Leaves out those that the command has got already: what a terminal sends
    /// goes to every process of the foreground group.
    void forward(const arrived_signal& signal) const noexcept;

    /// Begins to end the command and what it started: SIGTERM now, and from now on whatever the
    /// command leaves behind becomes ours to end.
    void terminate() noexcept;

    /// SIGKILL, also for what the command left behind since `terminate`.
    void kill() noexcept;

    /// Collects what has ended. Never blocks. True when the command is gone; after `terminate`,
    /// when all that it left behind is gone too.
    [[nodiscard]] bool reap();

    /// The command's exit code, or 128 plus the signal that killed it. After `reap` said true.
    [[nodiscard]] int exit_code() const noexcept { return *exit_code_; }

  private:
    void signal_leftovers(int signal) const noexcept;

    pid_t pid_;
    std::optional<int> exit_code_;
    int ending_signal_ = 0;  ///< What `terminate` or `kill` sent last.
};

}  // namespace syncguard::cli
