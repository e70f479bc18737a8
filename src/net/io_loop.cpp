#include "net/io_loop.hpp"

#include <boost/asio/post.hpp>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <system_error>
#include <utility>

namespace syncguard::net {

using std::chrono::steady_clock;

namespace {

constexpr std::chrono::milliseconds pause_without_memory{10};

constexpr std::chrono::microseconds longest_lookout{200};
constexpr unsigned slow_answers_before_a_try = 16;
constexpr unsigned lookouts_on_one_cpu = 16;
/// After that, whatever else the loop holds gets its turn.
constexpr std::chrono::milliseconds longest_poll{50};
/// What comes so soon after a look could as well come just after the next.
constexpr std::chrono::microseconds just_now{20};
constexpr int most_taken_in_before_a_step = 100;

}  // namespace

io_driver::io_driver(driven& whose)
    : whose_(whose), stay_usable_(boost::asio::make_work_guard(context_)) {}

void io_driver::perform(const std::shared_ptr<task>& what) {
    std::unique_lock guard(mutex_);
    if (driving_ == std::this_thread::get_id()) {
        // A handler of this very thread waits for something.
        hand_in(what);
        guard.unlock();
        drive_until_finished(*what, help::refused);
        return;
    }
    const bool has_to_drive = !has_driver_ || vacant_;
    std::unique_lock wheel(wheel_, std::defer_lock);
    if (!has_to_drive && is_worth_a_step(*what)) {
        if (reservations_ > 0 || !wheel.try_lock()) demand_attention();
    }
    hand_in(what);
    if (has_to_drive) {
        has_driver_ = true;
        drive_for(guard, *what);
    } else if (wheel) {
        step_for_driver(guard, *what);
        wheel.unlock();
    }
    while (!what->finished_) {
        if (!guard) guard.lock();
        wait_in_line(guard, *what);
        if (!what->finished_) drive_for(guard, *what);
    }
}

/// With the lock held, which is held again on return. Returns when the task has finished, or when
/// this thread has to drive.
void io_driver::wait_in_line(std::unique_lock<std::mutex>& guard, task& what) {
    if (what.finished_) return;
    what.place_ = dormitory_.assign();
    waiting_.push_back(what);
    guard.unlock();
    while (true) {
        const auto seen = dormitory_.time_in(what.place_);
        if (what.finished_) return;
        if (vacant_) {
            guard.lock();
            if (vacant_ && !what.finished_) {
                waiting_.erase(waiting_.iterator_to(what));
                return;
            }
            guard.unlock();
        } else {
            dormitory_.sleep(what.place_, seen);
        }
    }
}

void io_driver::start(const std::shared_ptr<task>& what) {
    const std::lock_guard guard(mutex_);
    // Also where somebody drives: whoever leaves must find a thread to pass the work on to.
    start_thread();
    if (is_worth_a_step(*what)) demand_attention();
    hand_in(what);
    if (!has_driver_) hand_to_thread();
}

/// With the lock held.
bool io_driver::is_worth_a_step(const task& what) const {
    return handed_in_.size() + 1 >= wishes_.tasks || what.deadline_ < wishes_.at;
}

/// With the lock held. If it throws, nothing was handed in.
void io_driver::hand_in(const std::shared_ptr<task>& what) {
    handed_in_.push_back(what);
    first_deadline_ = std::min(first_deadline_, what->deadline_);
    what->handed_in_ = true;
}

/// With the lock held.
void io_driver::demand_attention() {
    // Whoever drives may be asleep in there, or else asks before going in.
    if (!nudged_ && is_in_loop_) boost::asio::post(context_, [] {});
    if (!nudged_ && is_in_poll_) out_of_poll_->notify();
    nudged_ = true;
}

void io_driver::nudge() {
    const std::lock_guard guard(mutex_);
    demand_attention();
    if (!has_driver_ && whose_.has_work()) call_thread();
}

void io_driver::take_tasks(std::vector<std::shared_ptr<task>>& into) {
    const std::lock_guard guard(mutex_);
    if (into.empty()) {
        into.swap(handed_in_);
    } else {
        into.insert(into.end(), handed_in_.begin(), handed_in_.end());
        handed_in_.clear();
    }
    first_deadline_ = task::time_point::max();
}

/// With the lock held. Whether a thread sleeps for it.
bool io_driver::mark_finished(task& what) {
    what.finished_ = true;
    if (!what.is_linked()) {
        finished_others_ = true;
        return false;
    }
    waiting_.erase(waiting_.iterator_to(what));
    finished_sleepers_.add(what.place_);
    return true;
}

void io_driver::end() {
    try {
        const std::lock_guard guard(mutex_);
        ending_ = true;
        demand_attention();
    } catch (const std::bad_alloc&) {  // it ends when the next thing happens
    }
    thread_changed_.notify_all();
    thread_.end();
}

/// The calling thread becomes the driver until `what` has finished, or until the driver's own
/// thread is to take over. Called with the lock held; releases it.
void io_driver::drive_for(std::unique_lock<std::mutex>& guard, const task& what) {
    vacant_ = false;
    driving_ = std::this_thread::get_id();
    guard.unlock();
    std::unique_lock wheel(wheel_);
    std::exception_ptr failure;
    try {
        drive_until_finished(what, help::welcome);
    } catch (...) {
        failure = std::current_exception();
    }
    guard.lock();
    driving_ = {};
    pass_on(guard, wheel);
    if (failure) std::rethrow_exception(failure);
}

void io_driver::reserve_for_own_thread() {
    const std::lock_guard guard(mutex_);
    start_thread();
    // A caller that drives notices the reservation after its current step. It cannot be replaced
    // earlier: it may be in the middle of a step, even while a signal handler runs on its thread.
    const bool caller_drives = has_driver_ && !vacant_;
    if (caller_drives) demand_attention();
    ++reservations_;
    if (!caller_drives) hand_to_thread();
}

void io_driver::unreserve() noexcept {
    try {
        const std::lock_guard guard(mutex_);
        // The driver's own thread may have to stop driving.
        if (--reservations_ == 0) demand_attention();
    } catch (const std::bad_alloc&) {  // it goes on driving until the next thing happens
    }
}

/// Where memory runs out, others may give some back in a moment: a task that would go on without
/// its caller is not left alone for that before its deadline.
///
/// If other callers may help, this also returns when the driver's own thread is to take over.
void io_driver::drive_until_finished(const task& what, help by_others) {
    const bool may_hand_over = by_others == help::welcome;
    while (true) {
        try {
            drive_until([&] { return what.finished_ || (may_hand_over && reservations_ > 0); },
                        by_others);
            return;
        } catch (const std::bad_alloc&) {
            if (steady_clock::now() >= what.deadline_) throw;
        }
        std::this_thread::sleep_for(pause_without_memory);
    }
}

bool io_driver::drive_if_mine(const std::function<bool()>& done, driven::time_point until) {
    {
        const std::lock_guard guard(mutex_);
        if (driving_ != std::this_thread::get_id()) return false;
    }
    drive_until([&] { return done() || steady_clock::now() >= until; }, help::refused, until);
    return true;
}

void io_driver::drive_until(const std::function<bool()>& done, help by_others,
                            driven::time_point wake_at_latest) {
    // What came while nobody was there, such as the end of a connection, must be known before
    // anything is sent. Not without end: a peer that never stops talking must not stop us.
    if (steady_clock::now() - last_lookout_ > just_now) {
        for (int taken_in = 0; taken_in < most_taken_in_before_a_step; ++taken_in) {
            if (!take_in()) break;
        }
    }
    while (true) {
        step();
        if (const auto sleepers = std::exchange(finished_sleepers_, {}); !sleepers.empty()) {
            // They often run before this thread does, which has had its share of the CPU.
            stand_aside(by_others, [&] { dormitory_.wake(sleepers); });
        }
        driven::wishes wishes;
        bool looks_out = false;
        {
            const std::lock_guard guard(mutex_);
            if (done()) return;
            if (has_to_step()) continue;
            wishes = wishes_;
            stepped_by_another_ = false;
            // Among many callers only where a look does without the loop and its costs.
            const bool is_cheap = waiting_.empty() || whose_.socket_to_look_at() >= 0;
            looks_out = wishes.answer_is_due && is_cheap;
        }
        const auto wake_at = std::min(wishes.at, wake_at_latest);
        if (looks_out) {
            look_out(wake_at, by_others);
        } else {
            run_loop_once(wake_at);
        }
    }
}

/// With the wheel in hand. Those whose task finished may be yet to be woken.
void io_driver::step() {
    nudged_ = false;
    const auto wishes = whose_.step();
    const std::lock_guard guard(mutex_);
    wishes_ = wishes;
}

/// With the lock held. Tasks that came during a step were measured by older wishes.
bool io_driver::has_to_step() const {
    return nudged_ || handed_in_.size() >= wishes_.tasks || first_deadline_ < wishes_.at;
}

/// Does what the driver would do now, had it the time, until nothing is left to do or `what` has
/// finished. With the wheel in hand, and with the lock, which is given back meanwhile.
void io_driver::step_for_driver(std::unique_lock<std::mutex>& guard, const task& what) {
    const auto driver = std::exchange(driving_, std::this_thread::get_id());
    bool failed = false;
    finished_others_ = false;
    do {
        guard.unlock();
        try {
            step();
        } catch (const std::exception&) {  // no memory: the driver goes on from there
            failed = true;
        }
        wake_finished();
        guard.lock();
    } while (!failed && !what.finished_ && has_to_step());
    driving_ = driver;
    stepped_by_another_ = true;
    // The driver waits by what was known before, perhaps for what has come to its end.
    const bool polls_for_something_else =
        is_in_poll_ && (wishes_.at < polls_until_ || whose_.socket_to_look_at() != polled_socket_);
    if (!failed && !finished_others_ && !polls_for_something_else && !has_to_step()) return;
    nudged_ = true;
    if (is_in_poll_) out_of_poll_->notify();
}

/// Does something that needs no wheel.
template <class Function>
void io_driver::stand_aside(help by_others, Function function) {
    if (by_others == help::refused) {
        function();
        return;
    }
    wheel_.unlock();
    function();
    wheel_.lock();
}

/// Lets one thing that has come be taken in, without waiting. False if nothing has.
bool io_driver::take_in() {
    const auto seen = whose_.look();
    if (seen == driven::sight::only_the_loop_can_tell) return context_.poll_one() > 0;
    return seen == driven::sight::something_came;
}

/// Waits for an answer, without the loop where answers come fast. It tries that now and then in any
/// case: an answer may have been slow only because the CPU was asleep.
void io_driver::look_out(driven::time_point wake_at, help by_others) {
    const auto begin = steady_clock::now();
    const bool is_worth_it = answers_come_fast_ || slow_answers_ % slow_answers_before_a_try == 0;
    const bool saw_something = is_worth_it && spot_answer(begin, wake_at, by_others);
    // After another's step, what this thread waits for, and until when, may be something else.
    if (!saw_something && !stepped_by_another_) run_loop_once(wake_at);
    last_lookout_ = steady_clock::now();
    answers_come_fast_ = last_lookout_ - begin < longest_lookout;
    if (!answers_come_fast_) ++slow_answers_;
}

/// False if nothing came, or if only the loop can tell.
bool io_driver::spot_answer(driven::time_point begin, driven::time_point wake_at, help by_others) {
    // A server on this very CPU needs it in order to answer, and one in another session does not
    // get it from a thread that merely yields.
    if (shares_cpu_with_server()) return poll_socket(wake_at, by_others);
    // Elsewhere a CPU that has nothing to do falls asleep, and waking it takes longer than a server
    // nearby takes to answer, on virtual machines several times as long. Also a server that has to
    // wake another CPU pays for it. So the thread keeps it awake for a while, leaving it to whoever
    // wants it.
    const auto until = std::min(wake_at, begin + longest_lookout);
    do {
        if (nudged_ || take_in()) return true;
        stand_aside(by_others, [] { ::sched_yield(); });
    } while (steady_clock::now() < until);
    return false;
}

/// As far as is known; not asked each time, since asking costs as much as looking.
bool io_driver::shares_cpu_with_server() {
    if (lookouts_++ % lookouts_on_one_cpu == 0) shares_cpu_ = whose_.is_answered_from_this_cpu();
    return shares_cpu_;
}

/// Sleeps until something comes or attention is demanded, at less cost than the loop.
bool io_driver::poll_socket(driven::time_point wake_at, help by_others) {
    // A step for a driver that polls may itself wait for something, but not in the driver's place.
    if (is_in_poll_) return false;
    polled_socket_ = whose_.socket_to_look_at();
    if (polled_socket_ < 0) return false;
    try {
        const std::lock_guard guard(mutex_);
        if (nudged_) return true;
        if (!out_of_poll_) out_of_poll_.emplace();
        is_in_poll_ = true;
    } catch (const std::system_error&) {  // no more files can be opened
        return false;
    }
    using std::chrono::nanoseconds;
    const auto begin = steady_clock::now();
    const auto at_most = std::clamp<nanoseconds>(wake_at - begin, nanoseconds{0}, longest_poll);
    polls_until_ = begin + at_most;
    const timespec timeout{.tv_sec = 0, .tv_nsec = at_most.count()};
    std::array<pollfd, 2> watched{{{.fd = polled_socket_, .events = POLLIN, .revents = 0},
                                   {.fd = out_of_poll_->fd(), .events = POLLIN, .revents = 0}}};
    int ready = 0;
    stand_aside(by_others,
                [&] { ready = ::ppoll(watched.data(), watched.size(), &timeout, nullptr); });
    is_in_poll_ = false;
    if (ready <= 0) return false;
    if (watched[1].revents != 0) out_of_poll_->clear();
    return watched[0].revents == 0 || take_in();
}

void io_driver::run_loop_once(driven::time_point wake_at) {
    {
        const std::lock_guard guard(mutex_);
        if (nudged_) return;
        is_in_loop_ = true;
    }
    const auto leave = [](std::atomic<bool>* is_in) { *is_in = false; };
    const std::unique_ptr<std::atomic<bool>, decltype(leave)> leaves(&is_in_loop_, leave);
    // Where that time has come already, it returns without a look at the network.
    if (context_.run_one_until(wake_at) == 0) context_.poll_one();
}

/// This thread leaves: somebody else must go on if there is something to do. With lock and wheel in
/// hand, which it gives back.
void io_driver::pass_on(std::unique_lock<std::mutex>& guard, std::unique_lock<std::mutex>& wheel) {
    // After an exception some are left who were to be woken.
    auto sleepers = std::exchange(finished_sleepers_, {});
    if (reservations_ > 0) {
        hand_to_thread();
    } else if (!waiting_.empty()) {
        vacant_ = true;
        sleepers.add(waiting_.front().place_);
    } else {
        has_driver_ = false;
        if (nudged_ || !handed_in_.empty() || whose_.has_work()) call_thread();
    }
    // A successor often runs at once, and would have to go back to sleep for either of them.
    guard.unlock();
    wheel.unlock();
    dormitory_.wake(sleepers);
}

/// Lets the thread drive. With the lock held, when nobody does.
void io_driver::call_thread() {
    try {
        start_thread();
    } catch (const std::exception&) {
        return;  // No thread to be had: the next caller goes on with it.
    }
    hand_to_thread();
}

/// With the lock held, while no thread drives. The driver's own thread has been started.
void io_driver::hand_to_thread() {
    vacant_ = false;
    has_driver_ = true;
    thread_wanted_ = true;
    thread_changed_.notify_one();
}

void io_driver::start_thread() {
    // The thread itself may have brought about the end, with work left that nobody waits for.
    if (ending_) return;
    // The thread may be the last to let go of its owner.
    thread_.ensure_started("syncguard-io",
                           [this, keep_alive = whose_.shared_from_this()] { run_thread(); });
}

void io_driver::run_thread() {
    std::unique_lock guard(mutex_);
    while (true) {
        thread_changed_.wait(guard, [&] { return thread_wanted_ || ending_; });
        if (ending_) return;
        thread_wanted_ = false;
        guard.unlock();
        // Somebody may be doing a step already, and is known by that until it is done.
        std::unique_lock wheel(wheel_);
        guard.lock();
        driving_ = std::this_thread::get_id();
        guard.unlock();
        try {
            drive_until(
                [&] {
                    const bool is_needed = reservations_ > 0 || nudged_ || !handed_in_.empty();
                    return ending_ || (!is_needed && !whose_.has_work());
                },
                help::welcome);
        } catch (const std::exception&) {
            // Out of memory: others may give some back in a moment.
            std::this_thread::sleep_for(pause_without_memory);
        }
        guard.lock();
        driving_ = {};
        pass_on(guard, wheel);
        guard.lock();
    }
}

}  // namespace syncguard::net
