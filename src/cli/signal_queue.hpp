/// Signals as events: they wait in a file descriptor instead of interrupting something.
#pragma once

#include "util/file_descriptor.hpp"

#include <array>
#include <csignal>
#include <optional>

namespace syncguard::cli {

/// What ends the waiting for a lock, and what `run` hands on to its command.
inline constexpr std::array passed_on_signals{SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

struct arrived_signal {
    int number;
    /// The kernel made it (a terminal's Ctrl-C, a hangup), not some process.
    bool from_kernel;
};

/// Collects `passed_on_signals` and SIGCHLD from its construction to the end of the process: make
/// it before any thread, since threads inherit who blocks what.
///
/// Its end does not unblock anything: a signal that comes while the program already ends must not
/// replace the exit code.
class signal_queue {
  public:
    /// Throws `std::system_error`.
    signal_queue();
    signal_queue(const signal_queue&) = delete;
    signal_queue& operator=(const signal_queue&) = delete;

    /// Readable while a signal waits.
    [[nodiscard]] int fd() const noexcept { return signal_fd_.get(); }

    /// The next signal, if any. Never blocks.
    [[nodiscard]] std::optional<arrived_signal> take() const;

    /// Whether our parent had us ignore this signal, as `nohup` does.
    [[nodiscard]] bool inherited_as_ignored(int signal) const noexcept;

    /// Brings mask and dispositions back to what this process inherited. For a forked child before
    /// it executes something; async-signal-safe.
    void restore_inherited() const noexcept;

  private:
    sigset_t inherited_mask_{};
    sigset_t inherited_as_ignored_{};
    struct sigaction inherited_on_child_ {};
    file_descriptor signal_fd_;
};

}  // namespace syncguard::cli
