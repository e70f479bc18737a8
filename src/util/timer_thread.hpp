/// `timer_thread`: runs tasks at given times.
#pragma once

#include "util/owned_thread.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace syncguard {

/// The first task starts the thread. Destruction drops tasks that are not due.
///
/// Thread safety: all members may be called concurrently. A forked child has no such thread: there
/// no task runs, and destruction does not wait.
class timer_thread {
  public:
    using clock = std::chrono::steady_clock;
    /// Identifies a task; never zero.
    using ticket = std::uint64_t;

    timer_thread();
    timer_thread(const timer_thread&) = delete;
    timer_thread& operator=(const timer_thread&) = delete;
    ~timer_thread();

    /// Runs `task` at `due`. Tasks must be short and must not throw.
    ticket schedule(clock::time_point due, std::function<void()> task);

    /// Removes a task that has not begun; otherwise does nothing.
    void cancel(ticket id) noexcept;

  private:
    struct shared_state;
    static void run(const std::shared_ptr<shared_state>& state);

    std::shared_ptr<shared_state> state_;
    owned_thread thread_;
};

}  // namespace syncguard
