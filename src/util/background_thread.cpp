#include "util/background_thread.hpp"

#include "util/bounded_wait.hpp"

#include <memory>
#include <utility>

namespace syncguard {

struct background_thread::shared_state {
    explicit shared_state(std::size_t max_queued) : capacity(max_queued) {}

    const std::size_t capacity;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> queue;
    std::uint64_t posted = 0;
    std::uint64_t finished = 0;
    bool ending = false;
};

background_thread::background_thread(const char* name, std::size_t capacity)
    : name_(name), state_(std::make_shared<shared_state>(capacity)) {}

background_thread::~background_thread() {
    if (!thread_.belongs_to_parent()) {
        {
            const std::lock_guard guard(state_->mutex);
            state_->ending = true;
        }
        state_->changed.notify_all();
    }
    thread_.end();
}

bool background_thread::try_post(std::function<void()> task) {
    if (thread_.belongs_to_parent()) return false;
    {
        const std::lock_guard guard(state_->mutex);
        if (state_->queue.size() >= state_->capacity) return false;
        thread_.ensure_started(name_, [state = state_] { run(state); });
        state_->queue.push_back(std::move(task));
        ++state_->posted;
    }
    state_->changed.notify_all();
    return true;
}

bool background_thread::flush(milliseconds timeout) {
    if (thread_.belongs_to_parent()) return false;
    std::unique_lock guard(state_->mutex);
    const std::uint64_t target = state_->posted;
    return state_->changed.wait_for(guard, bounded_wait(timeout),
                                    [&] { return state_->finished >= target; });
}

std::size_t background_thread::end_within(milliseconds grace) noexcept {
    if (thread_.belongs_to_parent()) return 0;
    const auto deadline = std::chrono::steady_clock::now() + bounded_wait(grace);
    std::deque<std::function<void()>> dropped;
    {
        std::unique_lock guard(state_->mutex);
        state_->ending = true;
        state_->changed.notify_all();
        if (!thread_.is_current()) {
            state_->changed.wait_until(guard, deadline,
                                       [&] { return state_->finished == state_->posted; });
            dropped.swap(state_->queue);
        }
    }
    thread_.end_by(deadline);
    return dropped.size();
}

void background_thread::run(const std::shared_ptr<shared_state>& state) {
    std::unique_lock guard(state->mutex);
    while (true) {
        state->changed.wait(guard, [&] { return state->ending || !state->queue.empty(); });
        if (state->queue.empty()) return;
        auto task = std::move(state->queue.front());
        state->queue.pop_front();
        guard.unlock();
        task();
        task = nullptr;
        guard.lock();
        ++state->finished;
        state->changed.notify_all();
    }
}

}  // namespace syncguard
