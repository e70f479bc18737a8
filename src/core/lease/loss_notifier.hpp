/// Reports losses: requests stop and calls loss handlers, on threads that run only user code.
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

    /// Submits the report of the loss, unless `close` was called before. `lease` is kept until the
    /// report is done.
    void notify(lease_monitor_entry& entry, std::shared_ptr<detail::lease_core> lease,
                loss event) noexcept;

    /// Requests stop, or calls the handler. Called on a thread of the pool.
    void notify_one(lease_monitor_entry& entry) noexcept;

    [[nodiscard]] std::stop_token token_of(lease_monitor_entry& entry);

    /// Replaces the handler. After a loss, the new handler is called at once.
    void set_handler(lease_monitor_entry& entry, loss_handler handler);

    /// From now on no loss is reported.
    void close(lease_monitor_entry& entry) noexcept;

    /// Waits until a running report is done, except on a thread that runs handlers: handlers of
    /// different leases must not wait for each other.
    void wait_until_notified(lease_monitor_entry& entry);

  private:
    void enqueue(lease_monitor_entry& entry, std::shared_ptr<detail::lease_core> lease) noexcept;

    handler_threads& threads_;
    std::mutex mutex_;
    std::condition_variable notified_;
};

}  // namespace syncguard
