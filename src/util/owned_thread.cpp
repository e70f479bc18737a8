#include "util/owned_thread.hpp"

#include "util/fork_generation.hpp"

#include <chrono>
#include <cstdlib>
#include <list>
#include <mutex>

namespace syncguard {

namespace {

/// Threads that their owner could not join, because they destroyed that owner or run user code that
/// does not return. At exit the process waits for them, for a short time, before its libraries
/// clean up: OpenSSL, for example, frees per-thread data, and must not do so while a thread does
/// the same. Most of these threads end soon.
class detached_threads {
  public:
    static detached_threads& instance() {
        static auto* const all = new detached_threads;
        return *all;
    }

    void add(std::thread thread, std::future<void> body_ended) {
        threads before;
        {
            const std::lock_guard guard(mutex_);
            before.swap(threads_);
        }
        before.remove_if([](late_thread& each) { return each.join_by({}); });
        before.push_back({std::move(thread), std::move(body_ended), fork_generation()});
        const std::lock_guard guard(mutex_);
        threads_.splice(threads_.end(), before);
    }

  private:
    using time_point = std::chrono::steady_clock::time_point;

    struct late_thread {
        std::thread thread;
        std::future<void> body_ended;
        std::uint32_t process;

        [[nodiscard]] bool join_by(time_point then) {
            if (process != fork_generation() || thread.get_id() == std::this_thread::get_id() ||
                body_ended.wait_until(then) != std::future_status::ready) {
                return false;
            }
            thread.join();
            return true;
        }
    };

    using threads = std::list<late_thread>;

    detached_threads() {
        // Registered after a thread has run: exit handlers run in reverse order, so this one runs
        // before those that libraries registered on that thread.
        (void)std::atexit([] { instance().wait_for_all(); });
    }

    void wait_for_all() {
        threads last;
        {
            const std::lock_guard guard(mutex_);
            last.swap(threads_);
        }
        const auto until = std::chrono::steady_clock::now() + max_wait_at_exit;
        for (auto& each : last) {
            if (!each.join_by(until)) each.thread.detach();
        }
    }

    static constexpr std::chrono::seconds max_wait_at_exit{1};
    std::mutex mutex_;
    threads threads_;
};

}  // namespace

owned_thread::owned_thread() : process_(fork_generation()) {}

bool owned_thread::belongs_to_parent() const noexcept {
    return process_ != fork_generation();
}

void owned_thread::end_by(std::chrono::steady_clock::time_point deadline) {
    const bool must_wait = thread_.joinable() && !belongs_to_parent() &&
                           thread_.get_id() != std::this_thread::get_id();
    if (must_wait && body_ended_.wait_until(deadline) != std::future_status::ready) {
        detached_threads::instance().add(std::move(thread_), std::move(body_ended_));
    }
    end();
}

void owned_thread::end() {
    if (!thread_.joinable()) return;
    if (belongs_to_parent()) {
        thread_.detach();
    } else if (thread_.get_id() == std::this_thread::get_id()) {
        detached_threads::instance().add(std::move(thread_), std::move(body_ended_));
    } else {
        thread_.join();
    }
}

}  // namespace syncguard
