/// Renews leases and starts the reports of their loss: one monitor for each process.
#pragma once

#include "core/lease/lease_monitor_entry.hpp"
#include "core/lease/loss_notifier.hpp"
#include "core/lease/renewal_plan.hpp"
#include "util/handler_threads.hpp"

#include <boost/intrusive/set.hpp>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace syncguard {

/// One thread schedules the renewals and loss reports of all leases, from a queue that is sorted by
/// due time. It only starts requests and reports, and never waits for a store or for user code. If
/// it drops the last reference to a lease or a store, another thread destroys that object.
///
/// Thread safety: all members may be called concurrently, in the process that a lease belongs to.
class lease_monitor {
  public:
    /// Created at the first call, never destroyed. A forked child creates its own monitor: the
    /// parent's has no thread in the child, and its mutex may be locked for ever.
    [[nodiscard]] static lease_monitor& instance();

    lease_monitor(const lease_monitor&) = delete;
    lease_monitor& operator=(const lease_monitor&) = delete;

    /// Starts the threads. Call it before the first `watch`. Throws `std::system_error` if no
    /// thread can be started.
    void ensure_started();

    /// Reports the loss of the lease when its deadline passes.
    void watch(lease_monitor_entry& entry) noexcept;

    /// Also renews the lease. `io_thread` is kept until the lease ends.
    void renew(lease_monitor_entry& entry, milliseconds ttl,
               std::shared_ptr<const void> io_thread) noexcept;

    /// The deadline of the lease has changed.
    void deadline_moved(lease_monitor_entry& entry) noexcept;

    /// `failure` is null if the store has answered.
    void renewal_ended(lease_monitor_entry& entry, std::exception_ptr failure) noexcept;

    [[nodiscard]] std::exception_ptr renewal_failure_of(lease_monitor_entry& entry) noexcept;

    /// The lease is lost: ends monitoring and starts the report.
    void report_loss(lease_monitor_entry& entry, loss_reason reason) noexcept;

    /// Ends monitoring, before the lease is released, detached or destroyed.
    void forget(lease_monitor_entry& entry) noexcept;

    [[nodiscard]] loss_notifier& notifier() noexcept { return notifier_; }
    [[nodiscard]] handler_threads& handlers() noexcept { return handlers_; }

    /// Whether the calling thread is the thread of a monitor.
    [[nodiscard]] static bool runs_this_thread() noexcept;

  private:
    struct due_of {
        using type = lease_clock::time_point;
        const type& operator()(const lease_monitor_entry& entry) const noexcept {
            return entry.due;
        }
    };

    /// An action that is due for a lease. It runs without the mutex.
    struct due_action {
        std::shared_ptr<detail::lease_core> lease;
        renewal_step::kind action;
        milliseconds ttl;
    };

    lease_monitor();
    void run();
    void plan(lease_monitor_entry& entry) noexcept;
    [[nodiscard]] std::shared_ptr<const void> end(lease_monitor_entry& entry) noexcept;
    void collect_due(lease_clock::time_point now);
    void run_due() noexcept;

    const std::uint32_t process_;
    handler_threads handlers_;
    loss_notifier notifier_{handlers_};

    std::mutex mutex_;
    std::condition_variable changed_;
    boost::intrusive::multiset<lease_monitor_entry, boost::intrusive::key_of_value<due_of>>
        schedule_;
    bool started_ = false;

    std::vector<due_action> due_actions_;  ///< Used by the monitor's thread only.
};

}  // namespace syncguard
