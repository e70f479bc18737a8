/// A thread that runs tasks one after another, from a bounded queue.
#pragma once

#include "owned_thread.hpp"

#include <syncguard/time.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

namespace syncguard {

/// The thread starts with the first task. Destruction runs what is queued, then ends the thread,
/// unless `end_within` came first; destroyed on the thread itself (by the last task), it lets the
/// thread end on its own.
///
/// Thread safety: all members may be called concurrently. A forked child has no such thread: there
/// `try_post` refuses, and destruction does not wait.
class background_thread {
  public:
    /// `name` is that of the thread.
    background_thread(const char* name, std::size_t capacity);
    background_thread(const background_thread&) = delete;
    background_thread& operator=(const background_thread&) = delete;
    ~background_thread();

    /// False if the queue is full. Tasks must not throw.
    [[nodiscard]] bool try_post(std::function<void()> task);

    /// Waits until every task posted so far has run; false if `timeout` passes first.
    [[nodiscard]] bool flush(milliseconds timeout);

    /// Ends the thread once the queue is empty. After `grace`, tasks that have not begun are
    /// dropped, and a task that has begun is left alone. Returns how many were dropped.
    std::size_t end_within(milliseconds grace) noexcept;

  private:
    struct shared_state;
    static void run(const std::shared_ptr<shared_state>& state);

    const char* name_;
    std::shared_ptr<shared_state> state_;
    owned_thread thread_;
};

}  // namespace syncguard
