/// `wakeup`: an eventfd with which a thread wakes an event loop.
#pragma once

#include "util/deferred_cancellation.hpp"
#include "util/file_descriptor.hpp"

#include <sys/eventfd.h>

#include <cstdint>

namespace syncguard {

class wakeup {
  public:
    wakeup() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd") {}

    /// Readable from `notify` to `clear`.
    [[nodiscard]] int fd() const noexcept { return event_.get(); }

    void notify() const noexcept {
        const deferred_cancellation whole_call;
        // Can fail only if the counter is full; then the descriptor is readable already.
        (void)!::eventfd_write(event_.get(), 1);
    }
    void clear() const noexcept {
        eventfd_t count = 0;
        (void)!::eventfd_read(event_.get(), &count);
    }

  private:
    file_descriptor event_;
};

}  // namespace syncguard
