/// Leader/Followers event loop. One blocking caller at a time, the leader, runs the io_context for
/// all; the others, the followers, sleep until their operations are done. If there is no blocking
/// caller, or a reservation exists, the fallback thread runs the io_context.
///
/// Independent of any protocol.
#pragma once

#include "net/parking_lot.hpp"
#include "util/owned_thread.hpp"
#include "util/wakeup.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/intrusive/list.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace syncguard::net {

/// An operation that is submitted to the loop; its caller may wait for it. It finishes once.
class task : public boost::intrusive::list_base_hook<> {
  public:
    using time_point = std::chrono::steady_clock::time_point;

    /// After the operation was submitted, the loop calls `run_once` by `deadline` at the latest.
    explicit task(time_point deadline) : deadline_(deadline) {}
    task(const task&) = delete;
    task& operator=(const task&) = delete;
    virtual ~task() = default;

    /// Whether it was submitted. For callers of `execute` that have caught an exception.
    [[nodiscard]] bool was_submitted() const noexcept { return submitted_; }

  protected:
    time_point deadline_;

  private:
    friend class io_loop;
    std::atomic<bool> finished_{false};
    bool submitted_ = false;
    parking_lot::slot slot_;  ///< Where its thread sleeps.
};

/// Runs an io_context on one thread at a time, so handlers need no mutexes against each other. That
/// thread is the leader: a blocking caller if there is one, so that a single caller needs no switch
/// to another thread; otherwise, and during reservations, the fallback thread. The fallback thread
/// is started when it is first needed, and blocks all signals.
///
/// With many callers the leader often cannot run: the followers that it has just woken occupy the
/// CPU, or it sleeps until a reply comes. A caller that submits enough work then calls `run_once`
/// in place of the leader.
///
/// Thread safety: `execute`, `submit`, `notify`, `run_if_leader` and the reservations may be called
/// concurrently. `shutdown` is for the owner. The other members are for the leader.
class io_loop {
  public:
    /// The protocol code that the loop calls, on one thread at a time.
    class handler : public std::enable_shared_from_this<handler> {
      public:
        using time_point = task::time_point;

        handler() = default;
        handler(const handler&) = delete;
        handler& operator=(const handler&) = delete;
        virtual ~handler() = default;

        /// When to call `run_once` next, if nothing happens on the network: at `wake_at`, or
        /// earlier if `min_batch` operations have been submitted. If `min_batch` is greater than 1,
        /// operations are collected for a batch.
        struct step_result {
            time_point wake_at;
            std::size_t min_batch = 1;
            /// Whether the reply to a request that was sent is expected soon.
            bool expects_reply = true;
        };

        /// Performs all work that needs no waiting. If it throws, it can be called again.
        virtual step_result run_once() = 0;

        /// Result of a non-blocking read.
        enum class receive_result { none, received, needs_event_loop };

        /// Receives without waiting, if that is possible without the io_context. If it throws, it
        /// can be called again.
        [[nodiscard]] virtual receive_result try_receive() {
            return receive_result::needs_event_loop;
        }

        /// The socket that `try_receive` reads, or -1 if reading needs the io_context.
        [[nodiscard]] virtual int pollable_socket() const { return -1; }

        /// Whether the last reply was sent from the CPU on which this thread runs; false if
        /// unknown.
        [[nodiscard]] virtual bool peer_shares_cpu() const { return false; }

        /// Whether there is work that must continue without blocking callers.
        [[nodiscard]] virtual bool has_outstanding_work() const = 0;
    };

    explicit io_loop(handler& io_handler);
    io_loop(const io_loop&) = delete;
    io_loop& operator=(const io_loop&) = delete;
    ~io_loop() = default;

    [[nodiscard]] boost::asio::io_context& context() noexcept { return context_; }

    /// Submits an operation and returns when it has finished; the calling thread becomes the leader
    /// if there is none. Throws `std::bad_alloc` if there is no memory to submit the operation (see
    /// `was_submitted`). If `run_once` runs out of memory, it is called again until the operation's
    /// deadline; only then this throws `std::bad_alloc`. Other exceptions of `run_once` are passed
    /// on. A submitted operation continues without its caller.
    ///
    /// If `execute` is called from within `run_once`, the inner call runs the loop; the outer call
    /// returns after the inner one, even if the deadline of the outer call has passed by then.
    void execute(const std::shared_ptr<task>& op);

    /// Submits an operation and returns at once. Throws `std::system_error` if the fallback thread
    /// cannot be started, or `std::bad_alloc`; then the operation was not submitted.
    void submit(const std::shared_ptr<task>& op);

    /// Makes the leader call `run_once` soon. If there is outstanding work but no leader, the
    /// fallback thread becomes the leader. Throws `std::bad_alloc`.
    void notify();

    /// Appends the operations submitted since the last call, in order.
    void drain_submitted(std::vector<std::shared_ptr<task>>& into);

    /// Wakes the callers of finished operations, given as a range of shared pointers.
    template <class Range>
    void finish(const Range& finished) {
        mark_finished(finished, [](const auto& /*each*/) {});
        wake_finished();
    }

    /// Marks operations as finished like `finish`, but their callers are woken only after
    /// `run_once`, or by `wake_finished`. Calls `on_awaited` with the pointer to each operation
    /// whose caller sleeps. If `on_awaited` resets the pointer, the caller is the last owner and
    /// frees memory that it allocated itself, which is cheaper for the allocator.
    template <class Range, class OnAwaited>
    void mark_finished(Range&& finished, OnAwaited on_awaited) {
        const std::lock_guard guard(mutex_);
        for (auto& each : finished) {
            if (mark_finished(*each)) on_awaited(each);
        }
    }
    void wake_finished() noexcept { parking_lot_.unpark(std::exchange(finished_sleepers_, {})); }

    /// From now on only the fallback thread runs the loop, until `unreserve` has been called the
    /// same number of times. A caller that is the leader hands over after its current `run_once`.
    /// While a reservation exists, each call costs a thread switch, but no caller can delay the
    /// operations of others. Throws `std::system_error` if no thread can be started.
    void reserve_for_own_thread();
    void unreserve() noexcept;

    /// If the calling thread is the leader, runs the loop until `done()` is true or the time is
    /// `until`, and returns true; otherwise returns false at once. `done` is called while the
    /// loop's mutex is locked, so it must not call members of the loop.
    [[nodiscard]] bool run_if_leader(const std::function<bool()>& done, handler::time_point until);

    /// Ends the fallback thread. Called when no caller waits for an operation.
    void shutdown();

  private:
    /// Whether other threads may call `run_once` while the leader waits.
    enum class assist { allowed, forbidden };
    [[nodiscard]] bool mark_finished(task& op);
    [[nodiscard]] bool warrants_run(const task& op) const;
    void enqueue(const std::shared_ptr<task>& op);
    void lead_until(const std::function<bool()>& done, assist by_followers,
                    handler::time_point wake_at_latest = handler::time_point::max());
    void lead_until_done(const task& op, assist by_followers);
    void run_once();
    [[nodiscard]] bool must_run_once() const;
    void run_once_for_leader(std::unique_lock<std::mutex>& guard, const task& op);
    template <class Function>
    void with_leadership_released(assist by_followers, Function function);
    void wait_as_follower(std::unique_lock<std::mutex>& guard, task& op);
    [[nodiscard]] bool receive_one();
    void wait_for_reply(handler::time_point wake_at, assist by_followers);
    [[nodiscard]] bool spin_for_reply(handler::time_point begin, handler::time_point wake_at,
                                      assist by_followers);
    [[nodiscard]] bool shares_cpu_with_server();
    [[nodiscard]] bool poll_socket(handler::time_point wake_at, assist by_followers);
    void run_loop_once(handler::time_point wake_at);
    void interrupt_leader();
    void lead_for(std::unique_lock<std::mutex>& guard, const task& op);
    void promote_follower(std::unique_lock<std::mutex>& guard,
                          std::unique_lock<std::mutex>& leader_lock);
    void wake_fallback_thread();
    void hand_to_fallback_thread();
    void start_fallback_thread();
    void run_fallback_thread();

    handler& handler_;
    boost::asio::io_context context_{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_guard_;
    /// Held by the leader, except while other threads may call `run_once`, or by a thread that
    /// calls `run_once` in its place. Locked before `mutex_`.
    std::mutex leader_mutex_;
    // Guarded by `leader_mutex_`.
    bool replies_are_fast_ = false;
    unsigned slow_replies_ = 0;
    unsigned spin_count_ = 0;
    bool shares_cpu_ = false;
    handler::time_point last_poll_at_{};
    parking_lot::wake_list finished_sleepers_;  ///< Yet to be woken.
    /// An operation without a sleeping caller, such as the leader's, has finished.
    bool finished_others_ = false;
    bool stepped_by_follower_ = false;  ///< A follower called `run_once` while the leader waited.
    int polled_socket_ = -1;            ///< The leader polls it, at most until `polls_until_`.
    handler::time_point polls_until_{};

    std::mutex mutex_;
    std::vector<std::shared_ptr<task>> submitted_;
    task::time_point first_deadline_ = task::time_point::max();  ///< Of `submitted_`.
    handler::step_result last_result_{};
    std::atomic<bool> notified_{false};  ///< `run_once` must be called. Set under `mutex_`.
    bool has_leader_ = false;
    std::size_t reservations_ = 0;
    // Whether the leader waits in the io_context or in `poll_socket`. Set under `mutex_`.
    std::atomic<bool> is_in_loop_{false};
    std::atomic<bool> is_in_poll_{false};
    std::optional<wakeup> poll_interrupt_;
    std::thread::id leader_id_;  ///< The leader, or the thread that calls `run_once` in its place.
    /// The leader has left, and a follower must become the leader. Until then `has_leader_` stays
    /// true.
    std::atomic<bool> leadership_vacant_{false};

    parking_lot parking_lot_;
    boost::intrusive::list<task> followers_;

    std::condition_variable fallback_thread_changed_;
    bool fallback_thread_wanted_ = false;
    bool shutting_down_ = false;
    owned_thread fallback_thread_;
};

}  // namespace syncguard::net
