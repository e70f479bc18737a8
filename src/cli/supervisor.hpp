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
    /// What is given must outlive the supervisor.
    supervisor(held_lock& lock, milliseconds ttl, child_process& child,
               const signal_inbox& signals);

    /// Returns when the command has ended. Nothing if the lock was held all along; else why it was
    /// lost.
    [[nodiscard]] std::optional<std::string> watch();

  private:
    [[nodiscard]] lease_clock::time_point next_wakeup() const noexcept;
    void sleep_until_something_happens() const;
    void see_to_lock();
    void forward_signals() const;
    void lose(std::string why, lease_clock::time_point kill_at);

    held_lock& lock_;
    milliseconds ttl_;
    child_process& child_;
    const signal_inbox& signals_;
    file_descriptor timer_;
    std::shared_ptr<loss_notice> notice_ = std::make_shared<loss_notice>();

    lease_clock::time_point deadline_;

    std::optional<std::string> loss_;
    lease_clock::time_point kill_at_{};
    bool killed_ = false;
};

}  // namespace syncguard::cli
