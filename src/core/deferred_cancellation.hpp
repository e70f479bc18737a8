/// POSIX thread cancellation.
#pragma once

#include <pthread.h>

namespace syncguard {

/// While this lives, `pthread_cancel` does not end the calling thread, which happens later. Where a
/// cancelled thread waits, it unwinds its stack: that ends the process where it meets `noexcept` or
/// a `catch (...)` that does not throw again, and would leave what was begun as it is.
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
