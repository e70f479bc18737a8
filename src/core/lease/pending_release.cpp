#include "core/lease/pending_release.hpp"

#include "util/fork_generation.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

namespace syncguard {

/// Never destroyed: threads of the library may use it until the process ends.
class pending_release::registry {
  public:
    /// A forked child has its own registry: the parent's releases do not run in the child, and the
    /// mutex of the parent's registry may be locked for ever.
    static registry& instance() {
        auto* current = latest_.load(std::memory_order_acquire);
        while (current == nullptr || current->process_ != fork_generation()) {
            auto created = std::make_unique<registry>();
            if (!latest_.compare_exchange_strong(current, created.get())) continue;
            await_at_exit();
            return *created.release();
        }
        return *current;
    }

    void add() noexcept {
        const std::lock_guard guard(mutex_);
        ++count_;
        // The destructor of a static object added it. The program waits for it before it destroys
        // the static objects that were made earlier, which a handler may use.
        if (std::exchange(has_waited_at_exit_, false)) await_at_exit();
    }
    void remove() noexcept {
        // A completion may fork. In the child, the mutex of the parent's registry may stay locked.
        if (process_ != fork_generation()) return;
        const std::lock_guard guard(mutex_);
        if (--count_ == 0) none_left_.notify_all();
    }

  private:
    /// Registering the function more than once does no harm.
    static void await_at_exit() noexcept {
        (void)std::atexit([] { instance().wait_for_none(); });
    }

    void wait_for_none() {
        std::unique_lock guard(mutex_);
        has_waited_at_exit_ = true;
        none_left_.wait_for(guard, max_wait_at_exit, [&] { return count_ == 0; });
    }

    /// The same limit as in the destructor of a networked engine.
    static constexpr std::chrono::seconds max_wait_at_exit{1};
    static inline std::atomic<registry*> latest_{nullptr};

    const std::uint32_t process_ = fork_generation();
    std::mutex mutex_;
    std::condition_variable none_left_;
    std::size_t count_ = 0;
    bool has_waited_at_exit_ = false;
};

pending_release::pending_release() : registry_(registry::instance()) {
    registry_.add();
}

pending_release::~pending_release() {
    registry_.remove();
}

}  // namespace syncguard
