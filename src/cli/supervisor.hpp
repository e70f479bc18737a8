/// The life of `run` while its command runs: keep the lock alive, hand signals on, and see to it
/// that the command does not outlive the lock.
#pragma once

#include "acquisition.hpp"
#include "child_process.hpp"
#include "ending_schedule.hpp"
#include "loss_notice.hpp"

#include <memory>
#include <optional>
#include <string>

namespace syncguard::cli {

/// One thread and one loop decide everything here. Renewals are the library's business.
class supervisor {
  public:
    /// Renews the lock from now on. What is given must outlive the supervisor.
    supervisor(held_lock& lock, milliseconds ttl, const signal_inbox& signals);

    /// The end of the lease, kept up to date by `watch`. The command must not be executed after it.
    [[nodiscard]] const shared_deadline& deadline() const noexcept { return shared_deadline_; }

    /// Returns when the command has ended. Nothing if the lock was held all along; else why it was
    /// lost.
    [[nodiscard]] std::optional<std::string> watch(child_process& child);

  private:
    [[nodiscard]] lease_clock::time_point next_wakeup() const noexcept;
    void sleep_until_something_happens() const;
    void see_to_lock(child_process& child);
    void forward_signals(const child_process& child) const;
    void lose(child_process& child, std::string why, lease_clock::time_point kill_at);

    held_lock& lock_;
    milliseconds ttl_;
    const signal_inbox& signals_;
    file_descriptor timer_;
    std::shared_ptr<loss_notice> notice_ = std::make_shared<loss_notice>();

    lease_clock::time_point deadline_{};
    shared_deadline shared_deadline_;

    std::optional<std::string> loss_;
    lease_clock::time_point kill_at_{};
    bool killed_ = false;
};

}  // namespace syncguard::cli
