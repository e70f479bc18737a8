/// Calls loss handlers and requests stop, on threads that nothing else depends on.
#pragma once

#include "core/lease/lease_monitor_entry.hpp"
#include "util/handler_threads.hpp"

#include <condition_variable>
#include <mutex>

namespace syncguard {

/// Thread safety: all members may be called concurrently.
class loss_notifier {
  public:
    explicit loss_notifier(handler_threads& threads) noexcept : threads_(threads) {}

    /// Has the loss reported, unless `close` came first. `lease` is kept until that has been done.
    void notify(lease_monitor_entry& entry, std::shared_ptr<detail::lease_core> lease,
                loss event) noexcept;

    /// Requests stop, or calls the handler. Runs on a thread of the pool.
    void notify_one(lease_monitor_entry& entry) noexcept;

    [[nodiscard]] std::stop_token token_of(lease_monitor_entry& entry);

    /// Replaces the handler. One that comes after the loss is told of it at once.
    void set_handler(lease_monitor_entry& entry, loss_handler handler);

    /// From now on no loss is reported.
    void close(lease_monitor_entry& entry) noexcept;

    /// Waits while the loss is being announced, except on a thread that runs handlers: handlers of
    /// different leases must not wait for each other.
    void wait_until_notified(lease_monitor_entry& entry);

  private:
    void enqueue(lease_monitor_entry& entry, std::shared_ptr<detail::lease_core> lease) noexcept;

    handler_threads& threads_;
    std::mutex mutex_;
    std::condition_variable notified_;
};

}  // namespace syncguard
