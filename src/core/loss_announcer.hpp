/// Tells of lost locks, on threads that nothing else depends on.
#pragma once

#include "lease_supervision.hpp"

#include <boost/intrusive/list.hpp>

#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace syncguard {

/// Never destroyed: its threads run as long as the process.
///
/// Thread safety: all members may be called concurrently.
class loss_announcer {
  public:
    /// Throws `std::system_error`. Before anything is announced.
    void ensure_started();

    /// Has the loss told, unless `close` came first. `lease` is kept until that has been done.
    void announce(lease_supervision& whose, std::shared_ptr<detail::lease_core> lease,
                  loss what) noexcept;

    /// Lets go of a lease whose supervision is over, on one of the threads.
    void drop(lease_supervision& whose, std::shared_ptr<detail::lease_core> lease) noexcept;

    [[nodiscard]] std::stop_token token_of(lease_supervision& whose);

    /// Replaces the handler. One that comes after the loss is told of it at once.
    void set_handler(lease_supervision& whose, loss_handler handler);

    /// From now on nothing is told.
    void close(lease_supervision& whose) noexcept;

    /// Waits while the loss is being told, unless it is the calling thread that tells.
    void wait_until_told(lease_supervision& whose);

  private:
    void run();
    void tell_of(lease_supervision& lost, std::unique_lock<std::mutex>& guard);
    void enqueue(lease_supervision& whose, std::shared_ptr<detail::lease_core> lease) noexcept;
    void start_thread();

    std::mutex mutex_;
    std::condition_variable has_news_;
    std::condition_variable told_;
    boost::intrusive::list<lease_supervision> lost_;
    int threads_ = 0;
    std::size_t idle_threads_ = 0;
};

}  // namespace syncguard
