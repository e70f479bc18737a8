/// Defers POSIX thread cancellation.
#pragma once

#include <pthread.h>

namespace syncguard {

/// While this object exists, `pthread_cancel` has no effect on the calling thread; a pending
/// cancellation takes effect later. A cancelled thread unwinds its stack from the function in which
/// it waits. That terminates the process if the unwinding reaches `noexcept` or a `catch (...)`
/// that does not rethrow, and in any case leaves the operation unfinished.
class deferred_cancellation {
  public:
    deferred_cancellation() noexcept {
        (void)::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &former_);
    }
    deferred_cancellation(const deferred_cancellation&) = delete;
    deferred_cancellation& operator=(const deferred_cancellation&) = delete;
    ~deferred_cancellation() { (void)::pthread_setcancelstate(former_, nullptr); }

  private:
    int former_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace syncguard
