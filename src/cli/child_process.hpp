/// `child_process`: starts and signals the command of `run`, and reports how it ended.
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

/// Variables that are set for the command, in addition to those that this process inherited.
using environment = std::vector<std::pair<std::string, std::string>>;

/// A signal that could not be sent.
struct refused_signal {
    pid_t process;
    int error;  ///< An `errno`: EPERM if the process runs as another user.
};

class child_process {
  public:
    /// Starts `command` (never empty) with the standard streams, signal mask and signal
    /// dispositions that this process inherited, unless `deadline` has passed by then. Does not
    /// wait until the command is executed: see `start_failure`. Throws `std::system_error` if no
    /// process could be created.
    ///
    /// The command gets SIGTERM when this process dies, even by SIGKILL, because nothing renews its
    /// lock any more.
    child_process(const std::vector<std::string>& command, const environment& variables,
                  const signal_queue& signals, const shared_deadline& deadline);
    child_process(const child_process&) = delete;
    child_process& operator=(const child_process&) = delete;
    /// Ends a command that still runs, because it must not outlive its lock.
    ~child_process();

    /// Forwards a signal, unless the command has received it already: a terminal sends its signals
    /// to every process of the foreground group.
    [[nodiscard]] std::optional<refused_signal> forward(const arrived_signal& signal) noexcept;

    /// Begins to end the command and its descendants: sends SIGTERM. From now on this process
    /// adopts orphaned descendants of the command (as a subreaper), to end them, too.
    void terminate() noexcept;

    /// Sends SIGKILL, also to descendants that were adopted since `terminate`.
    void kill() noexcept;

    /// The latest signal of `terminate`, `kill` or `reap` that was refused since the previous call.
    /// The process in question goes on, and `reap` waits for its end.
    [[nodiscard]] std::optional<refused_signal> take_refused() noexcept {
        return std::exchange(refused_, std::nullopt);
    }

    /// Reaps ended processes. Never blocks. True if the command has ended; after `terminate`, if
    /// all adopted descendants have ended, too.
    [[nodiscard]] bool reap();

    /// Why the command was not executed, as an `errno`, or `deadline_passed`. Nullopt if it was
    /// executed. Call it after `reap` has returned true.
    [[nodiscard]] std::optional<int> start_failure() const noexcept { return start_failure_; }
    static constexpr int deadline_passed = -1;

    /// The command's exit code, or 128 plus the signal that killed it. Call it after `reap` has
    /// returned true.
    [[nodiscard]] int exit_code() const noexcept { return *exit_code_; }

  private:
    /// Sends the signal to the command, if it has not ended.
    void signal_command(int signal) noexcept;
    void signal_leftovers(int signal) noexcept;
    void send(pid_t process, int signal) noexcept;

    /// A pipe that a successful execution closes without data.
    std::optional<file_descriptor> start_report_;
    pid_t pid_;
    std::optional<int> exit_code_;
    std::optional<int> start_failure_;
    int ending_signal_ = 0;  ///< The last signal of `terminate` or `kill`.
    std::optional<refused_signal> refused_;
};

}  // namespace syncguard::cli
