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

constexpr std::chrono::milliseconds oom_retry_delay{10};

constexpr std::chrono::microseconds max_spin{200};
constexpr unsigned slow_replies_per_spin = 16;
constexpr unsigned spins_per_cpu_check = 16;
/// After this time the other events of the io_context are handled.
constexpr std::chrono::milliseconds max_poll{50};
/// If the last poll was this recent, the leader sends without polling again: a reply could just as
/// well come right after another poll.
constexpr std::chrono::microseconds recent_poll{20};
constexpr int max_received_before_run = 100;

}  // namespace

io_loop::io_loop(handler& io_handler)
    : handler_(io_handler), work_guard_(boost::asio::make_work_guard(context_)) {}

void io_loop::execute(const std::shared_ptr<task>& op) {
    std::unique_lock guard(mutex_);
    if (leader_id_ == std::this_thread::get_id()) {
        // Called from within `run_once`.
        enqueue(op);
        guard.unlock();
        lead_until_done(*op, assist::forbidden);
        return;
    }
    const bool must_lead = !has_leader_ || leadership_vacant_;
    std::unique_lock leader_lock(leader_mutex_, std::defer_lock);
    if (!must_lead && warrants_run(*op)) {
        if (reservations_ > 0 || !leader_lock.try_lock()) interrupt_leader();
    }
    enqueue(op);
    if (must_lead) {
        has_leader_ = true;
        lead_for(guard, *op);
    } else if (leader_lock) {
        run_once_for_leader(guard, *op);
        leader_lock.unlock();
    }
    while (!op->finished_) {
        if (!guard) guard.lock();
        wait_as_follower(guard, *op);
        if (!op->finished_) lead_for(guard, *op);
    }
}

/// Called with the lock held; it is held again on return. Returns when the operation has finished,
/// or when this thread has to lead.
void io_loop::wait_as_follower(std::unique_lock<std::mutex>& guard, task& op) {
    if (op.finished_) return;
    op.slot_ = parking_lot_.allocate_slot();
    followers_.push_back(op);
    guard.unlock();
    while (true) {
        const auto seen = parking_lot_.epoch(op.slot_);
        if (op.finished_) return;
        if (leadership_vacant_) {
            guard.lock();
            if (leadership_vacant_ && !op.finished_) {
                followers_.erase(followers_.iterator_to(op));
                return;
            }
            guard.unlock();
        } else {
            parking_lot_.park(op.slot_, seen);
        }
    }
}

void io_loop::submit(const std::shared_ptr<task>& op) {
    const std::lock_guard guard(mutex_);
    // Also if there is a leader: when the leader leaves, this thread may have to take over.
    start_fallback_thread();
    if (warrants_run(*op)) interrupt_leader();
    enqueue(op);
    if (!has_leader_) hand_to_fallback_thread();
}

/// With the lock held.
bool io_loop::warrants_run(const task& op) const {
    return submitted_.size() + 1 >= last_result_.min_batch || op.deadline_ < last_result_.wake_at;
}

/// With the lock held. If it throws, nothing was submitted.
void io_loop::enqueue(const std::shared_ptr<task>& op) {
    submitted_.push_back(op);
    first_deadline_ = std::min(first_deadline_, op->deadline_);
    op->submitted_ = true;
}

/// With the lock held.
void io_loop::interrupt_leader() {
    // The leader sleeps in the io_context or in poll, or checks `notified_` before it enters them.
    if (!notified_ && is_in_loop_) boost::asio::post(context_, [] {});
    if (!notified_ && is_in_poll_) poll_interrupt_->notify();
    notified_ = true;
}

void io_loop::notify() {
    const std::lock_guard guard(mutex_);
    interrupt_leader();
    if (!has_leader_ && handler_.has_outstanding_work()) wake_fallback_thread();
}

void io_loop::drain_submitted(std::vector<std::shared_ptr<task>>& into) {
    const std::lock_guard guard(mutex_);
    if (into.empty()) {
        into.swap(submitted_);
    } else {
        into.insert(into.end(), submitted_.begin(), submitted_.end());
        submitted_.clear();
    }
    first_deadline_ = task::time_point::max();
}

/// With the lock held. Returns whether a thread sleeps until it has finished.
bool io_loop::mark_finished(task& op) {
    op.finished_ = true;
    if (!op.is_linked()) {
        finished_others_ = true;
        return false;
    }
    followers_.erase(followers_.iterator_to(op));
    finished_sleepers_.add(op.slot_);
    return true;
}

void io_loop::shutdown() {
    try {
        const std::lock_guard guard(mutex_);
        shutting_down_ = true;
        interrupt_leader();
    } catch (const std::bad_alloc&) {  // the leader ends at the next event
    }
    fallback_thread_changed_.notify_all();
    fallback_thread_.end();
}

/// The calling thread becomes the leader until `op` has finished, or until the fallback thread is
/// to take over. Called with the lock held; releases it.
void io_loop::lead_for(std::unique_lock<std::mutex>& guard, const task& op) {
    leadership_vacant_ = false;
    leader_id_ = std::this_thread::get_id();
    guard.unlock();
    std::unique_lock leader_lock(leader_mutex_);
    std::exception_ptr failure;
    try {
        lead_until_done(op, assist::allowed);
    } catch (...) {
        failure = std::current_exception();
    }
    guard.lock();
    leader_id_ = {};
    promote_follower(guard, leader_lock);
    if (failure) std::rethrow_exception(failure);
}

void io_loop::reserve_for_own_thread() {
    const std::lock_guard guard(mutex_);
    start_fallback_thread();
    // A caller that is the leader notices the reservation after its current `run_once`. It cannot
    // be replaced earlier: it may be inside `run_once`, even while a signal handler runs on its
    // thread.
    const bool caller_leads = has_leader_ && !leadership_vacant_;
    if (caller_leads) interrupt_leader();
    ++reservations_;
    if (!caller_leads) hand_to_fallback_thread();
}

void io_loop::unreserve() noexcept {
    try {
        const std::lock_guard guard(mutex_);
        // The fallback thread may have to stop leading.
        if (--reservations_ == 0) interrupt_leader();
    } catch (const std::bad_alloc&) {  // it remains the leader until the next event
    }
}

/// If memory runs out, other threads may soon free some, so the caller retries until the deadline
/// of its operation.
///
/// If followers may assist, this also returns when the fallback thread is to take over.
void io_loop::lead_until_done(const task& op, assist by_followers) {
    const bool may_hand_over = by_followers == assist::allowed;
    while (true) {
        try {
            lead_until([&] { return op.finished_ || (may_hand_over && reservations_ > 0); },
                       by_followers);
            return;
        } catch (const std::bad_alloc&) {
            if (steady_clock::now() >= op.deadline_) throw;
        }
        std::this_thread::sleep_for(oom_retry_delay);
    }
}

bool io_loop::run_if_leader(const std::function<bool()>& done, handler::time_point until) {
    {
        const std::lock_guard guard(mutex_);
        if (leader_id_ != std::this_thread::get_id()) return false;
    }
    lead_until([&] { return done() || steady_clock::now() >= until; }, assist::forbidden, until);
    return true;
}

void io_loop::lead_until(const std::function<bool()>& done, assist by_followers,
                         handler::time_point wake_at_latest) {
    // Before anything is sent, the leader receives what arrived while there was no leader, such as
    // the end of a connection. The number is limited, because a peer that never stops sending must
    // not block the loop.
    if (steady_clock::now() - last_poll_at_ > recent_poll) {
        for (int received = 0; received < max_received_before_run; ++received) {
            if (!receive_one()) break;
        }
    }
    while (true) {
        run_once();
        if (const auto sleepers = std::exchange(finished_sleepers_, {}); !sleepers.empty()) {
            // The woken threads often run before this one, which has used its time slice.
            with_leadership_released(by_followers, [&] { parking_lot_.unpark(sleepers); });
        }
        handler::step_result result;
        bool waits_for_reply = false;
        {
            const std::lock_guard guard(mutex_);
            if (done()) return;
            if (must_run_once()) continue;
            result = last_result_;
            stepped_by_follower_ = false;
            // If there are followers, the leader spins only if the socket can be polled without the
            // io_context, which costs more.
            const bool is_cheap = followers_.empty() || handler_.pollable_socket() >= 0;
            waits_for_reply = result.expects_reply && is_cheap;
        }
        const auto wake_at = std::min(result.wake_at, wake_at_latest);
        if (waits_for_reply) {
            wait_for_reply(wake_at, by_followers);
        } else {
            run_loop_once(wake_at);
        }
    }
}

/// With `leader_mutex_` held. Callers of finished operations may still have to be woken.
void io_loop::run_once() {
    notified_ = false;
    const auto result = handler_.run_once();
    const std::lock_guard guard(mutex_);
    last_result_ = result;
}

/// With the lock held. Operations submitted during `run_once` were compared with the older result.
bool io_loop::must_run_once() const {
    return notified_ || submitted_.size() >= last_result_.min_batch ||
           first_deadline_ < last_result_.wake_at;
}

/// Calls `run_once` in place of the leader until nothing is left to do or `op` has finished. Called
/// with `leader_mutex_` and the lock held; releases the lock during `run_once`.
void io_loop::run_once_for_leader(std::unique_lock<std::mutex>& guard, const task& op) {
    const auto leader = std::exchange(leader_id_, std::this_thread::get_id());
    bool failed = false;
    finished_others_ = false;
    do {
        guard.unlock();
        try {
            run_once();
        } catch (const std::exception&) {  // out of memory: the leader continues
            failed = true;
        }
        wake_finished();
        guard.lock();
    } while (!failed && !op.finished_ && must_run_once());
    leader_id_ = leader;
    stepped_by_follower_ = true;
    // The leader still polls with the old timeout and socket. Interrupt it if either has changed.
    const bool polls_with_old_settings =
        is_in_poll_ &&
        (last_result_.wake_at < polls_until_ || handler_.pollable_socket() != polled_socket_);
    if (!failed && !finished_others_ && !polls_with_old_settings && !must_run_once()) return;
    notified_ = true;
    if (is_in_poll_) poll_interrupt_->notify();
}

/// Calls the function with `leader_mutex_` released, if followers may assist.
template <class Function>
void io_loop::with_leadership_released(assist by_followers, Function function) {
    if (by_followers == assist::forbidden) {
        function();
        return;
    }
    leader_mutex_.unlock();
    function();
    leader_mutex_.lock();
}

/// Receives one message or event, without waiting. False if there is none.
bool io_loop::receive_one() {
    const auto result = handler_.try_receive();
    if (result == handler::receive_result::needs_event_loop) return context_.poll_one() > 0;
    return result == handler::receive_result::received;
}

/// Waits for a reply; if replies are fast, without the io_context. If they are slow, it still spins
/// now and then: a reply may have been slow only because the CPU was in a sleep state.
void io_loop::wait_for_reply(handler::time_point wake_at, assist by_followers) {
    const auto begin = steady_clock::now();
    const bool may_spin = replies_are_fast_ || slow_replies_ % slow_replies_per_spin == 0;
    const bool has_received = may_spin && spin_for_reply(begin, wake_at, by_followers);
    // After the `run_once` of a follower, the socket and the time limit may have changed.
    if (!has_received && !stepped_by_follower_) run_loop_once(wake_at);
    last_poll_at_ = steady_clock::now();
    replies_are_fast_ = last_poll_at_ - begin < max_spin;
    if (!replies_are_fast_) ++slow_replies_;
}

/// False if nothing came, or if receiving needs the io_context.
bool io_loop::spin_for_reply(handler::time_point begin, handler::time_point wake_at,
                             assist by_followers) {
    // A server on the same CPU needs that CPU in order to answer. If it belongs to another session,
    // it does not get the CPU from a thread that only yields.
    if (shares_cpu_with_server()) return poll_socket(wake_at, by_followers);
    // Otherwise an idle CPU enters a sleep state. Waking it takes longer than a nearby server takes
    // to answer, on virtual machines several times as long, and also delays a server that has to
    // wake it. So this thread keeps the CPU awake for a while, and yields to other threads.
    const auto until = std::min(wake_at, begin + max_spin);
    do {
        if (notified_ || receive_one()) return true;
        with_leadership_released(by_followers, [] { ::sched_yield(); });
    } while (steady_clock::now() < until);
    return false;
}

/// False if unknown. Not checked each time, since a check costs as much as polling.
bool io_loop::shares_cpu_with_server() {
    if (spin_count_++ % spins_per_cpu_check == 0) shares_cpu_ = handler_.peer_shares_cpu();
    return shares_cpu_;
}

/// Sleeps until data comes or the leader is interrupted, at less cost than the io_context.
bool io_loop::poll_socket(handler::time_point wake_at, assist by_followers) {
    // A `run_once` for a polling leader may itself wait, but must not poll in its place.
    if (is_in_poll_) return false;
    polled_socket_ = handler_.pollable_socket();
    if (polled_socket_ < 0) return false;
    try {
        const std::lock_guard guard(mutex_);
        if (notified_) return true;
        if (!poll_interrupt_) poll_interrupt_.emplace();
        is_in_poll_ = true;
    } catch (const std::system_error&) {  // no more files can be opened
        return false;
    }
    using std::chrono::nanoseconds;
    const auto begin = steady_clock::now();
    const auto at_most = std::clamp<nanoseconds>(wake_at - begin, nanoseconds{0}, max_poll);
    polls_until_ = begin + at_most;
    const timespec timeout{.tv_sec = 0, .tv_nsec = at_most.count()};
    std::array<pollfd, 2> watched{{{.fd = polled_socket_, .events = POLLIN, .revents = 0},
                                   {.fd = poll_interrupt_->fd(), .events = POLLIN, .revents = 0}}};
    int ready = 0;
    with_leadership_released(
        by_followers, [&] { ready = ::ppoll(watched.data(), watched.size(), &timeout, nullptr); });
    is_in_poll_ = false;
    if (ready <= 0) return false;
    if (watched[1].revents != 0) poll_interrupt_->clear();
    return watched[0].revents == 0 || receive_one();
}

void io_loop::run_loop_once(handler::time_point wake_at) {
    {
        const std::lock_guard guard(mutex_);
        if (notified_) return;
        is_in_loop_ = true;
    }
    const auto leave = [](std::atomic<bool>* is_in) { *is_in = false; };
    const std::unique_ptr<std::atomic<bool>, decltype(leave)> leaves(&is_in_loop_, leave);
    // If `wake_at` has passed, `run_one_until` returns without polling the network.
    if (context_.run_one_until(wake_at) == 0) context_.poll_one();
}

/// The leader leaves: another thread must take over if there is outstanding work. Called with both
/// locks held; releases them.
void io_loop::promote_follower(std::unique_lock<std::mutex>& guard,
                               std::unique_lock<std::mutex>& leader_lock) {
    // After an exception some callers still have to be woken.
    auto sleepers = std::exchange(finished_sleepers_, {});
    if (reservations_ > 0) {
        hand_to_fallback_thread();
    } else if (!followers_.empty()) {
        leadership_vacant_ = true;
        sleepers.add(followers_.front().slot_);
    } else {
        has_leader_ = false;
        if (notified_ || !submitted_.empty() || handler_.has_outstanding_work())
            wake_fallback_thread();
    }
    // A woken successor often runs at once, and would sleep again if either lock were held.
    guard.unlock();
    leader_lock.unlock();
    parking_lot_.unpark(sleepers);
}

/// Makes the fallback thread the leader. With the lock held, when there is no leader.
void io_loop::wake_fallback_thread() {
    try {
        start_fallback_thread();
    } catch (const std::exception&) {
        return;  // No thread can be started: the next caller continues the work.
    }
    hand_to_fallback_thread();
}

/// With the lock held, while there is no leader. The fallback thread has been started.
void io_loop::hand_to_fallback_thread() {
    leadership_vacant_ = false;
    has_leader_ = true;
    fallback_thread_wanted_ = true;
    fallback_thread_changed_.notify_one();
}

void io_loop::start_fallback_thread() {
    // The fallback thread itself may have shut the loop down while work is left that no caller
    // waits for.
    if (shutting_down_) return;
    // The thread may hold the last reference to its owner.
    fallback_thread_.ensure_started(
        "syncguard-io",
        [this, keep_alive = handler_.shared_from_this()] { run_fallback_thread(); });
}

void io_loop::run_fallback_thread() {
    std::unique_lock guard(mutex_);
    while (true) {
        fallback_thread_changed_.wait(guard,
                                      [&] { return fallback_thread_wanted_ || shutting_down_; });
        if (shutting_down_) return;
        fallback_thread_wanted_ = false;
        guard.unlock();
        // Another thread may be in `run_once` in place of a leader; `leader_id_` is its id until it
        // has returned.
        std::unique_lock leader_lock(leader_mutex_);
        guard.lock();
        leader_id_ = std::this_thread::get_id();
        guard.unlock();
        try {
            lead_until(
                [&] {
                    const bool is_needed = reservations_ > 0 || notified_ || !submitted_.empty();
                    return shutting_down_ || (!is_needed && !handler_.has_outstanding_work());
                },
                assist::allowed);
        } catch (const std::exception&) {
            // Out of memory: other threads may soon free some.
            std::this_thread::sleep_for(oom_retry_delay);
        }
        guard.lock();
        leader_id_ = {};
        promote_follower(guard, leader_lock);
        guard.lock();
    }
}

}  // namespace syncguard::net
