/// `background_thread`: runs tasks one after another, from a bounded queue.
#pragma once

#include "util/owned_thread.hpp"

#include <syncguard/time.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

namespace syncguard {

/// The first task starts the thread. The destructor runs all queued tasks and then ends the thread,
/// unless `end_within` was called before. If the last task destroys the object on the thread
/// itself, the thread ends after that task.
///
/// Thread safety: all members may be called concurrently. A forked child has no such thread: there
/// `try_post` refuses, and destruction does not wait.
class background_thread {
  public:
    /// `name` is the name of the thread.
    background_thread(const char* name, std::size_t capacity);
    background_thread(const background_thread&) = delete;
    background_thread& operator=(const background_thread&) = delete;
    ~background_thread();

    /// False if the queue is full. Tasks must not throw.
    [[nodiscard]] bool try_post(std::function<void()> task);

    /// Waits until every task posted so far has run; false if `timeout` passes first.
    [[nodiscard]] bool flush(milliseconds timeout);

    /// Ends the thread once the queue is empty. After `grace`, queued tasks are dropped, and a task
    /// that is running goes on without being waited for. Returns the number of dropped tasks.
    std::size_t end_within(milliseconds grace) noexcept;

  private:
    struct shared_state;
    static void run(const std::shared_ptr<shared_state>& state);

    const char* name_;
    std::shared_ptr<shared_state> state_;
    owned_thread thread_;
};

}  // namespace syncguard
