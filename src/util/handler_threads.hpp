/// Thread pool for user code: loss handlers, stop callbacks, release-error handlers.
#pragma once

#include <boost/intrusive/list.hpp>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>

namespace syncguard {

/// A task that calls user code. The submitter owns its memory, so that submitting cannot fail.
class handler_task : public boost::intrusive::list_base_hook<> {
  public:
    handler_task() = default;
    handler_task(const handler_task&) = delete;
    handler_task& operator=(const handler_task&) = delete;
    virtual ~handler_task() = default;

    /// Called on one of the threads, without a locked mutex. The pool does not use the task after
    /// the call begins: the call may destroy it or submit it again.
    virtual void run() noexcept = 0;

  private:
    friend class handler_threads;
    boost::intrusive::list<handler_task>* queue_ = nullptr;  ///< Guarded by the pool.
};

/// Thread pool that grows while its tasks block. A handler may block until another handler has run,
/// so no task may wait for another one to return: if all threads are busy and none has taken a task
/// for `stall_timeout`, more threads are started. All stop requests return before handlers begin,
/// except stop requests that block for `stall_timeout`.
///
/// Never destroyed: its threads run as long as the process.
///
/// Thread safety: all members may be called concurrently.
class handler_threads {
  public:
    enum class urgency { handler, stop_request };

    /// Throws `std::system_error` if there is no thread and none can be started.
    void ensure_started();

    void submit(handler_task& task, urgency level) noexcept;

    /// Removes a task from its queue. False if a thread has already taken it, or if it was not
    /// submitted.
    bool cancel(handler_task& task) noexcept;

    /// Submits a function. Throws `std::bad_alloc`.
    template <class Function>
    void post(Function function) {
        submit(*new posted<Function>(std::move(function)), urgency::handler);
    }

    /// While such an object exists, no handler begins, so that several lost leases can be submitted
    /// together.
    class batch {
      public:
        explicit batch(handler_threads& threads) noexcept;
        batch(const batch&) = delete;
        batch& operator=(const batch&) = delete;
        ~batch();

      private:
        handler_threads& threads_;
    };

    /// Whether the calling thread belongs to such a pool.
    [[nodiscard]] static bool run_this_thread() noexcept;

  private:
    using task_queue = boost::intrusive::list<handler_task>;

    template <class Function>
    struct posted final : handler_task {
        explicit posted(Function callable) : function(std::move(callable)) {}
        void run() noexcept override {
            try {
                function();
            } catch (...) {  // user code must not end the thread
            }
            delete this;
        }
        Function function;
    };

    void run();
    void start_thread();
    void start_spare_thread() noexcept;
    void wait_until_allowed(std::unique_lock<std::mutex>& guard);
    [[nodiscard]] task_queue* next_queue() noexcept;

    static constexpr std::size_t base_threads = 4;
    static constexpr std::chrono::milliseconds stall_timeout{10};

    std::mutex mutex_;
    std::condition_variable changed_;
    task_queue stop_requests_;
    task_queue handlers_;
    int batches_ = 0;
    std::size_t idle_ = 0;
    std::size_t busy_ = 0;
    std::size_t max_busy_ = base_threads;  ///< Doubled while no thread takes a task.
    std::size_t stopping_ = 0;             ///< Threads that request stop.
    std::size_t stuck_stopping_ = 0;  ///< Threads of `stopping_` that handlers do not wait for.
    std::chrono::steady_clock::time_point last_taken_{};
};

}  // namespace syncguard
