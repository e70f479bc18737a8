#include "canceller.hpp"

#include <pthread.h>
#include <signal.h>

#include <array>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace syncguard::postgres {

namespace {

constexpr unsigned most_threads = 2;
constexpr std::size_t most_waiting = 200;

/// A new thread inherits the mask: no signal of the process is handled there, and none of its own
/// (SIGPIPE) ends the process.
class blocked_signals {
  public:
    blocked_signals() noexcept {
        sigset_t all;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    blocked_signals(const blocked_signals&) = delete;
    blocked_signals& operator=(const blocked_signals&) = delete;
    ~blocked_signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  private:
    sigset_t before_{};
};

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
        if (!cancellation || state_->waiting.size() >= most_waiting) return;
        state_->waiting.push_back(std::move(cancellation));
        if (state_->threads == most_threads) return;
        const blocked_signals blocked;
        std::thread([shared = state_] { run(*shared); }).detach();
        ++state_->threads;
    } catch (const std::exception&) {  // no memory or no thread: as if too many waited
    }
}

void canceller::finish(std::chrono::milliseconds patience) {
    std::unique_lock guard(state_->mutex);
    state_->ended.wait_for(guard, patience, [&] { return state_->threads == 0; });
}

void canceller::run(state& shared) noexcept {
    ::pthread_setname_np(::pthread_self(), "syncguard-cncl");
    std::unique_lock guard(shared.mutex);
    while (!shared.waiting.empty()) {
        const auto next = std::move(shared.waiting.front());
        shared.waiting.pop_front();
        guard.unlock();
        std::array<char, 256> problem{};
        // Without effect where it fails, as where the server has ended the work already.
        (void)PQcancel(next.get(), problem.data(), static_cast<int>(problem.size()));
        guard.lock();
    }
    --shared.threads;
    shared.ended.notify_all();
}

}  // namespace syncguard::postgres
