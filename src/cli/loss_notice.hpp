/// Passes the loss of a lock from the library's thread to an event loop.
#pragma once

#include "util/wakeup.hpp"

#include <syncguard/loss.hpp>

#include <atomic>

namespace syncguard::cli {

class loss_notice {
  public:
    /// Readable after a loss, until `clear`.
    [[nodiscard]] int fd() const noexcept { return arrived_.fd(); }

    /// Whether the store answered that the lock is not held.
    [[nodiscard]] bool says_gone() const noexcept { return gone_; }

    /// Whether the lease's deadline has passed.
    [[nodiscard]] bool says_expired() const noexcept { return expired_; }

    void post(loss_reason reason) noexcept {
        (reason == loss_reason::not_held ? gone_ : expired_) = true;
        arrived_.notify();
    }

    /// Makes `fd` unreadable, so that the loop can sleep again.
    void clear() const noexcept { arrived_.clear(); }

  private:
    wakeup arrived_;
    std::atomic<bool> gone_{false};
    std::atomic<bool> expired_{false};
};

}  // namespace syncguard::cli
