#include "postgres/canceller.hpp"

#include "util/library_thread.hpp"

#include <array>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace syncguard::postgres {

namespace {

constexpr unsigned max_threads = 2;
constexpr std::size_t max_waiting = 200;

}  // namespace

struct canceller::state {
    std::mutex mutex;
    std::condition_variable ended;
    std::deque<request> waiting;
    unsigned threads = 0;
};

canceller::canceller() : state_(std::make_shared<state>()) {}

void canceller::start(request cancellation) noexcept {
    try {
        const std::lock_guard guard(state_->mutex);
        if (!cancellation || state_->waiting.size() >= max_waiting) return;
        state_->waiting.push_back(std::move(cancellation));
        if (state_->threads == max_threads) return;
        start_thread("syncguard-cncl", [shared = state_] { run(*shared); }).detach();
        ++state_->threads;
    } catch (const std::exception&) {  // no memory or no thread: the request is dropped
    }
}

void canceller::finish(std::chrono::milliseconds grace) {
    std::unique_lock guard(state_->mutex);
    state_->ended.wait_for(guard, grace, [&] { return state_->threads == 0; });
}

void canceller::run(state& shared) noexcept {
    std::unique_lock guard(shared.mutex);
    while (!shared.waiting.empty()) {
        const auto next = std::move(shared.waiting.front());
        shared.waiting.pop_front();
        guard.unlock();
        std::array<char, 256> problem{};
        // A failure is ignored: the request then has no effect, as if the server had already ended
        // the work.
        (void)PQcancel(next.get(), problem.data(), static_cast<int>(problem.size()));
        guard.lock();
    }
    --shared.threads;
    shared.ended.notify_all();
}

}  // namespace syncguard::postgres
