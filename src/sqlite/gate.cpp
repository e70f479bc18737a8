#include "gate.hpp"

#include <syncguard/error.hpp>

namespace syncguard::sqlite {

void gate::enter(const call_limits& limits) {
    std::unique_lock guard(mutex_);
    if (taken_ &&
        !opened_.wait_until(guard, limits.stop, limits.deadline, [this] { return !taken_; })) {
        if (limits.stop.stop_requested()) {
            throw lock_error(error_code::aborted,
                             "the operation was cancelled while other threads used the lock file");
        }
        throw lock_error(error_code::network_timeout,
                         "other threads of this process used the lock file until the deadline; "
                         "try again or allow more time");
    }
    taken_ = true;
}

void gate::enter() {
    std::unique_lock guard(mutex_);
    opened_.wait(guard, [this] { return !taken_; });
    taken_ = true;
}

void gate::leave() {
    {
        const std::lock_guard guard(mutex_);
        taken_ = false;
    }
    opened_.notify_one();
}

}  // namespace syncguard::sqlite
