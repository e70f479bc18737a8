/// Two doors to one room: the same asynchronous I/O, waited for by a blocking caller or not.
///
/// Nothing in here knows any protocol.
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

/// Something to be done by I/O, which a thread may wait for. It finishes once.
class task : public boost::intrusive::list_base_hook<> {
  public:
    using time_point = std::chrono::steady_clock::time_point;

    /// The driver is told of it by then, though it may be told later of others.
    explicit task(time_point deadline) : deadline_(deadline) {}
    task(const task&) = delete;
    task& operator=(const task&) = delete;
    virtual ~task() = default;

    /// Whether a driver has it, or had it. For who called `perform` and caught an exception.
    [[nodiscard]] bool was_handed_in() const noexcept { return handed_in_; }

  protected:
    time_point deadline_;

  private:
    friend class io_driver;
    std::atomic<bool> finished_{false};
    bool handed_in_ = false;
    dormitory::place place_;  ///< Where its thread sleeps.
};

/// Whose I/O is driven. Its members are called by one thread at a time.
class driven : public std::enable_shared_from_this<driven> {
  public:
    using time_point = task::time_point;

    driven() = default;
    driven(const driven&) = delete;
    driven& operator=(const driven&) = delete;
    virtual ~driven() = default;

    /// When it wants to be called again, if nothing happens on the network: at a time, or when so
    /// many tasks were handed in. There may be good reason to let some gather.
    struct wishes {
        time_point at;
        std::size_t tasks = 1;
        /// Whether something was sent that will be answered as soon as can be.
        bool answer_is_due = true;
    };

    /// Does what can be done without waiting. If it throws, it can be called again.
    virtual wishes step() = 0;

    /// What a look at the network showed.
    enum class sight { nothing_came, something_came, only_the_loop_can_tell };

    /// Takes in what has come from the network, without waiting, where that can be done without the
    /// context's loop and all its machinery. If it throws, it can be called again.
    [[nodiscard]] virtual sight look() { return sight::only_the_loop_can_tell; }

    /// The socket that a look looks at, or -1 where only the loop can tell.
    [[nodiscard]] virtual int socket_to_look_at() const { return -1; }

    /// Whether the last answer was sent from the CPU that this thread is on, as far as is known.
    [[nodiscard]] virtual bool is_answered_from_this_cpu() const { return false; }

    /// Whether something is under way that must go on, though nobody waits for it.
    [[nodiscard]] virtual bool has_work() const = 0;
};

/// Runs an io_context with one thread at a time: that of a blocking caller as long as there is one,
/// so that a lone caller pays no hop to another thread; else a thread of its own, which exists only
/// if it was ever needed, and blocks all signals. Handlers therefore need no locks among each
/// other.
///
/// Among many callers the driver often has to wait for a CPU that those run on whom it has just
/// woken, or sleeps until an answer comes. Whoever comes with work that is worth a step does the
/// step in its place.
///
/// Thread safety: `perform`, `start`, `nudge` and reservations may be made concurrently; the other
/// members are for the thread that drives.
class io_driver {
  public:
    explicit io_driver(driven& whose);
    io_driver(const io_driver&) = delete;
    io_driver& operator=(const io_driver&) = delete;
    ~io_driver() = default;

    [[nodiscard]] boost::asio::io_context& context() noexcept { return context_; }

    /// Hands in a task and returns when it has finished, driving the context if nobody else does.
    /// Throws what `step` throws, and `std::bad_alloc` only if there was no memory until the task's
    /// deadline; the task then goes on without its caller.
    ///
    /// Called from within `step`, it drives from there: the outer call returns after the inner one,
    /// be it past its deadline.
    void perform(const std::shared_ptr<task>& what);

    /// Hands in a task and returns at once. Throws `std::system_error` if no thread can be started
    /// for it; then it was not handed in.
    void start(const std::shared_ptr<task>& what);

    /// Sees to it that `step` is called again soon, if it has anything to do. Throws
    /// `std::bad_alloc`.
    void nudge();

    /// Adds what was handed in since the last time, in order.
    void take_tasks(std::vector<std::shared_ptr<task>>& into);

    /// Lets those who wait go on. `what` is a range of shared pointers to tasks.
    template <class Range>
    void finish(const Range& what) {
        mark_finished(what, [](const auto& /*each*/) {});
        wake_finished();
    }

    /// The same, but those who sleep are woken after the step, or by `wake_finished`. Calls
    /// `let_go` with each pointer to a task that a thread sleeps for. If it resets the pointer, the
    /// thread is the last to own the task, and gives its memory back where it took it from, which
    /// spares the allocator a good part of its work.
    template <class Range, class LetGo>
    void mark_finished(Range&& what, LetGo let_go) {
        const std::lock_guard guard(mutex_);
        for (auto& each : what) {
            if (mark_finished(*each)) let_go(each);
        }
    }
    void wake_finished() noexcept { dormitory_.wake(std::exchange(finished_sleepers_, {})); }

    /// From now on only the driver's own thread runs the loop, until `unreserve` has been called as
    /// often. A caller that drives now hands over after its current step. While a reservation
    /// exists, each call costs a change of threads, but no caller can delay the tasks of others.
    /// Throws `std::system_error` if no thread can be started.
    void reserve_for_own_thread();
    void unreserve() noexcept;

    /// If the calling thread is the one that drives, goes on with it until `done` or until then;
    /// else returns false at once. `done` is asked with a lock held.
    [[nodiscard]] bool drive_if_mine(const std::function<bool()>& done, driven::time_point until);

    /// Ends the thread. Nobody may be waiting.
    void end();

  private:
    /// Whether other threads may do steps while the driver waits for something.
    enum class help { welcome, refused };
    [[nodiscard]] bool mark_finished(task& what);
    [[nodiscard]] bool is_worth_a_step(const task& what) const;
    void hand_in(const std::shared_ptr<task>& what);
    void drive_until(const std::function<bool()>& done, help by_others,
                     driven::time_point wake_at_latest = driven::time_point::max());
    void drive_until_finished(const task& what, help by_others);
    void step();
    [[nodiscard]] bool has_to_step() const;
    void step_for_driver(std::unique_lock<std::mutex>& guard, const task& what);
    template <class Function>
    void stand_aside(help by_others, Function function);
    void wait_in_line(std::unique_lock<std::mutex>& guard, task& what);
    [[nodiscard]] bool take_in();
    void look_out(driven::time_point wake_at, help by_others);
    [[nodiscard]] bool spot_answer(driven::time_point begin, driven::time_point wake_at,
                                   help by_others);
    [[nodiscard]] bool shares_cpu_with_server();
    [[nodiscard]] bool poll_socket(driven::time_point wake_at, help by_others);
    void run_loop_once(driven::time_point wake_at);
    void demand_attention();
    void drive_for(std::unique_lock<std::mutex>& guard, const task& what);
    void pass_on(std::unique_lock<std::mutex>& guard, std::unique_lock<std::mutex>& wheel);
    void call_thread();
    void hand_to_thread();
    void start_thread();
    void run_thread();

    driven& whose_;
    boost::asio::io_context context_{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> stay_usable_;
    /// Held by the thread that drives, or by one that does a step for it; before `mutex_`.
    std::mutex wheel_;
    // Touched by whoever holds that.
    bool answers_come_fast_ = false;
    unsigned slow_answers_ = 0;
    unsigned lookouts_ = 0;
    bool shares_cpu_ = false;
    driven::time_point last_lookout_{};
    dormitory::wake_list finished_sleepers_;  ///< Yet to be woken.
    bool finished_others_ = false;     ///< Tasks that nobody sleeps for, such as the driver's.
    bool stepped_by_another_ = false;  ///< Since the driver last knew what there is to do.
    int polled_socket_ = -1;           ///< What the driver waits for in a poll, and until when.
    driven::time_point polls_until_{};

    std::mutex mutex_;
    std::vector<std::shared_ptr<task>> handed_in_;
    task::time_point first_deadline_ = task::time_point::max();  ///< Of those.
    driven::wishes wishes_{};
    std::atomic<bool> nudged_{false};  ///< `step` has to be called. Set with the lock held.
    bool has_driver_ = false;
    std::size_t reservations_ = 0;
    std::atomic<bool> is_in_loop_{false};  ///< The driver; set with the lock held.
    std::atomic<bool> is_in_poll_{false};  ///< Likewise.
    std::optional<wakeup> out_of_poll_;
    std::thread::id driving_;  ///< The driver, once at work.
    /// There is no driver, and one of those who wait has to take over.
    std::atomic<bool> vacant_{false};

    dormitory dormitory_;
    boost::intrusive::list<task> waiting_;

    std::condition_variable thread_changed_;
    bool thread_wanted_ = false;
    bool ending_ = false;
    owned_thread thread_;
};

}  // namespace syncguard::net
