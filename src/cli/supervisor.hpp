/// Event loop of `run` while its command runs: watches the lease, forwards signals, and ends the
/// command before the lease ends.
#pragma once

#include "cli/acquisition.hpp"
#include "cli/child_process.hpp"
#include "cli/loss_notice.hpp"
#include "cli/termination_schedule.hpp"

#include <memory>
#include <optional>
#include <set>
#include <string>

namespace syncguard::cli {

/// Single-threaded; the library renews the lock in its own thread.
class supervisor {
  public:
    /// Starts the renewal of the lock. The arguments must outlive the supervisor.
    supervisor(held_lock& lock, milliseconds ttl, const signal_queue& signals);

    /// The lease's deadline, which `watch` keeps up to date. The command must not be executed after
    /// it.
    [[nodiscard]] const shared_deadline& deadline() const noexcept { return shared_deadline_; }

    /// Returns when the command has ended, however long that takes; until then the lock is renewed
    /// if possible. Nullopt if the lock was held all the time, else the reason for its loss.
    [[nodiscard]] std::optional<std::string> watch(child_process& child);

  private:
    [[nodiscard]] lease_clock::time_point next_wakeup() const noexcept;
    void wait_for_event() const;
    void check_lock(child_process& child);
    void forward_signals(child_process& child) const;
    /// Reports the processes that cannot be ended although the lock is lost, each process once.
    void report_unending(child_process& child);
    void begin_termination(child_process& child, std::string reason,
                           lease_clock::time_point kill_at);

    held_lock& lock_;
    milliseconds ttl_;
    const signal_queue& signals_;
    file_descriptor timer_;
    std::shared_ptr<loss_notice> notice_ = std::make_shared<loss_notice>();

    lease_clock::time_point deadline_{};
    shared_deadline shared_deadline_;

    std::optional<std::string> loss_;
    lease_clock::time_point kill_at_{};
    bool killed_ = false;
    std::set<pid_t> reported_;
};

}  // namespace syncguard::cli
