/// The command that `run` runs: starting it, signalling it, and learning how it ended.
#pragma once

#include "cli/shared_deadline.hpp"
#include "cli/signal_queue.hpp"
#include "util/file_descriptor.hpp"

#include <sys/types.h>

#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace syncguard::cli {

/// Variables that are set for the command, beside what this process inherited.
using environment = std::vector<std::pair<std::string, std::string>>;

/// A signal that the system did not permit to send.
struct refused_signal {
    pid_t process;
    int error;  ///< An `errno`: EPERM where the process runs as another user.
};

class child_process {
  public:
    /// Starts `command` (never empty) with the standard streams, signal mask and signal
    /// dispositions that this process inherited, unless `deadline` has passed by then. Does not
    /// wait for the execution: see `start_failure`. Throws `std::system_error` if no process could
    /// be created.
    ///
    /// The command gets SIGTERM when this process dies, even by SIGKILL: its lock would not be
    /// renewed any more.
    child_process(const std::vector<std::string>& command, const environment& variables,
                  const signal_queue& signals, const shared_deadline& deadline);
    child_process(const child_process&) = delete;
    child_process& operator=(const child_process&) = delete;
    /// Ends a command that still runs: it must not outlive its lock.
    ~child_process();

    /// Hands a signal on. Leaves out those that the command has got already: what a terminal sends
    /// goes to every process of the foreground group.
    [[nodiscard]] std::optional<refused_signal> forward(const arrived_signal& signal) noexcept;

    /// Begins to end the command and what it started: SIGTERM now, and from now on whatever the
    /// command leaves behind becomes ours to end.
    void terminate() noexcept;

    /// SIGKILL, also for what the command left behind since `terminate`.
    void kill() noexcept;

    /// The latest signal of `terminate`, `kill` or `reap` that was refused since the previous call.
    /// The process concerned goes on, and `reap` waits for its end.
    [[nodiscard]] std::optional<refused_signal> take_refused() noexcept {
        return std::exchange(refused_, std::nullopt);
    }

    /// Collects what has ended. Never blocks. True when the command is gone; after `terminate`,
    /// when all that it left behind is gone too.
    [[nodiscard]] bool reap();

    /// Why the command was not executed, as an `errno`; `deadline_passed` if its time was over.
    /// Nothing if it was executed. After `reap` said true.
    [[nodiscard]] std::optional<int> start_failure() const noexcept { return start_failure_; }
    static constexpr int deadline_passed = -1;

    /// The command's exit code, or 128 plus the signal that killed it. After `reap` said true.
    [[nodiscard]] int exit_code() const noexcept { return *exit_code_; }

  private:
    /// Sends the signal to the command, if it has not ended.
    void signal_command(int signal) noexcept;
    void signal_leftovers(int signal) noexcept;
    void send(pid_t process, int signal) noexcept;

    /// Closed without data by a successful execution.
    std::optional<file_descriptor> start_report_;
    pid_t pid_;
    std::optional<int> exit_code_;
    std::optional<int> start_failure_;
    int ending_signal_ = 0;  ///< What `terminate` or `kill` sent last.
    std::optional<refused_signal> refused_;
};

}  // namespace syncguard::cli
