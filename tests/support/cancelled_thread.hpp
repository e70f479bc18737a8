/// Calls on a thread that was cancelled (`pthread_cancel`).
#pragma once

#include <pthread.h>

#include <atomic>
#include <thread>

namespace syncguard::test {

/// Calls `function` on a thread whose cancellation is pending, and waits until the thread has
/// ended. Returns whether `function` returned, which it does not if the cancellation ends it.
template <class Function>
[[nodiscard]] bool returns_on_cancelled_thread(Function function) {
    std::atomic<bool> is_cancelled{false};
    std::atomic<bool> has_returned{false};
    std::thread calling([&] {
        // The loop has no cancellation point.
        while (!is_cancelled)
            std::this_thread::yield();
        function();
        has_returned = true;
        while (true)
            ::pthread_testcancel();
    });
    (void)::pthread_cancel(calling.native_handle());
    is_cancelled = true;
    calling.join();
    return has_returned;
}

}  // namespace syncguard::test
