/// Tells of lost locks, on threads that nothing else depends on.
#pragma once

#include "core/lease/lease_monitor_entry.hpp"
#include "util/handler_threads.hpp"

#include <condition_variable>
#include <mutex>

namespace syncguard {

/// Thread safety: all members may be called concurrently.
class loss_announcer {
  public:
    explicit loss_announcer(handler_threads& threads) noexcept : threads_(threads) {}

    /// Has the loss told, unless `close` came first. `lease` is kept until that has been done.
    void announce(lease_supervision& whose, std::shared_ptr<detail::lease_core> lease,
                  loss what) noexcept;

    /// Requests stop, or calls the handler. Runs on a thread of the pool.
    void tell(lease_supervision& lost) noexcept;

    [[nodiscard]] std::stop_token token_of(lease_supervision& whose);

    /// Replaces the handler. One that comes after the loss is told of it at once.
    void set_handler(lease_supervision& whose, loss_handler handler);

    /// From now on nothing is told.
    void close(lease_supervision& whose) noexcept;

    /// Waits while the loss is being announced, except on a thread that runs handlers: handlers of
    /// different leases must not wait for each other.
    void wait_until_told(lease_supervision& whose);

  private:
    void enqueue(lease_supervision& whose, std::shared_ptr<detail::lease_core> lease) noexcept;

    handler_threads& threads_;
    std::mutex mutex_;
    std::condition_variable told_;
};

}  // namespace syncguard
