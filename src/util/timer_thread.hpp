/// A thread that does things at a certain time.
#pragma once

#include "util/owned_thread.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace syncguard {

/// The thread starts with the first task. Destruction drops what has not come due.
///
/// Thread safety: all members may be called concurrently. A forked child has no such thread: there
/// nothing comes due, and destruction does not wait.
class timer_thread {
  public:
    using clock = std::chrono::steady_clock;
    /// Names a task; never zero.
    using ticket = std::uint64_t;

    timer_thread();
    timer_thread(const timer_thread&) = delete;
    timer_thread& operator=(const timer_thread&) = delete;
    ~timer_thread();

    /// Runs `task` at `due`. Tasks must be short and must not throw.
    ticket schedule(clock::time_point due, std::function<void()> task);

    /// Forgets a task that has not begun; does nothing for others.
    void cancel(ticket id) noexcept;

  private:
    struct shared_state;
    static void run(const std::shared_ptr<shared_state>& state);

    std::shared_ptr<shared_state> state_;
    owned_thread thread_;
};

}  // namespace syncguard
