/// `signal_queue`: receives signals through a file descriptor (signalfd) instead of signal
/// handlers.
#pragma once

#include "util/file_descriptor.hpp"

#include <array>
#include <csignal>
#include <optional>

namespace syncguard::cli {

/// The signals that end the waiting for a lock, and that `run` forwards to its command.
inline constexpr std::array passed_on_signals{SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

struct arrived_signal {
    int number;
    /// The kernel sent it (a terminal's Ctrl-C, a hangup), not a process.
    bool from_kernel;
};

/// Collects `passed_on_signals` and SIGCHLD from its construction to the end of the process. Create
/// it before any thread, because threads inherit the signal mask.
///
/// The destructor does not unblock signals: a signal that arrives while the program ends must not
/// change the exit code.
class signal_queue {
  public:
    /// Throws `std::system_error`.
    signal_queue();
    signal_queue(const signal_queue&) = delete;
    signal_queue& operator=(const signal_queue&) = delete;

    /// Readable while a signal is pending.
    [[nodiscard]] int fd() const noexcept { return signal_fd_.get(); }

    /// The next signal, if any. Never blocks.
    [[nodiscard]] std::optional<arrived_signal> take() const;

    /// Whether this process has inherited that it ignores this signal, for instance from `nohup`.
    [[nodiscard]] bool inherited_as_ignored(int signal) const noexcept;

    /// Restores the inherited signal mask and dispositions. For a forked child before exec;
    /// async-signal-safe.
    void restore_inherited() const noexcept;

  private:
    sigset_t inherited_mask_{};
    sigset_t inherited_as_ignored_{};
    struct sigaction inherited_on_child_ {};
    file_descriptor signal_fd_;
};

}  // namespace syncguard::cli
