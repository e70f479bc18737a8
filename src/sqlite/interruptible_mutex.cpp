#include "sqlite/interruptible_mutex.hpp"

#include <syncguard/error.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>

namespace syncguard::sqlite {

namespace {

/// A caller that has waited this long locks the mutex before callers that come later. Until then
/// later callers may overtake it while its thread wakes up: strict hand-over after every short
/// operation would halve the throughput.
constexpr std::chrono::milliseconds max_overtaking{1};

/// How long a waiting caller may leave signals pending.
constexpr std::chrono::milliseconds max_signal_delay{100};

}  // namespace

void interruptible_mutex::lock(const call_limits& limits, precedence rank,
                               const signals_blocked* signals) {
    std::unique_lock guard(mutex_);
    if (!locked_) {
        locked_ = true;
        return;
    }
    waiter self;
    queue_of(rank).push_back(&self);
    wait(guard, self, rank, limits, signals);
}

bool interruptible_mutex::try_lock() noexcept {
    const std::lock_guard guard(mutex_);
    const bool is_free = !locked_ && std::all_of(queues_.begin(), queues_.end(),
                                                 [](const auto& each) { return each.empty(); });
    locked_ = locked_ || is_free;
    return is_free;
}

void interruptible_mutex::lock() {
    lock({.deadline = std::chrono::steady_clock::time_point::max(), .stop = {}},
         precedence::extension);
}

void interruptible_mutex::unlock() noexcept {
    const std::lock_guard guard(mutex_);
    hand_over();
}

void interruptible_mutex::yield_to_higher_ranks(const call_limits& limits, precedence rank,
                                                const signals_blocked* signals) {
    std::unique_lock guard(mutex_);
    const auto higher_end = queues_.begin() + static_cast<std::ptrdiff_t>(rank);
    if (std::all_of(queues_.begin(), higher_end, [](const auto& each) { return each.empty(); })) {
        return;
    }
    std::optional<waiter> self;
    try {
        self.emplace();
        self->goes_first = true;
        queue_of(rank).push_front(&*self);
    } catch (...) {
        hand_over();
        throw;
    }
    hand_over();
    wait(guard, *self, rank, limits, signals);
}

void interruptible_mutex::wait(std::unique_lock<std::mutex>& guard, waiter& self, precedence rank,
                               const call_limits& limits, const signals_blocked* signals) {
    using clock = std::chrono::steady_clock;
    const auto changed = [&] {
        if (self.is_admitted) return true;
        if (locked_) return false;
        locked_ = true;
        std::erase(queue_of(rank), &self);
        return true;
    };
    while (true) {
        const auto until = signals == nullptr
                               ? limits.deadline
                               : std::min(limits.deadline, clock::now() + max_signal_delay);
        if (self.changed.wait_until(guard, limits.stop, until, changed)) return;
        if (limits.stop.stop_requested() || clock::now() >= limits.deadline) break;
        if (signals != nullptr && signals->any_pending()) {
            receive_signals(guard, self, rank, *signals);
        }
    }
    std::erase(queue_of(rank), &self);
    if (limits.stop.stop_requested()) {
        throw lock_error(error_code::aborted,
                         "the operation was cancelled while other threads used the lock file");
    }
    throw lock_error(error_code::network_timeout,
                     "other threads of this process used the lock file until the deadline; "
                     "try again or allow more time");
}

void interruptible_mutex::receive_signals(std::unique_lock<std::mutex>& guard, waiter& self,
                                          precedence rank,
                                          const signals_blocked& signals) noexcept {
    queue outside;
    outside.splice(outside.begin(), queue_of(rank),
                   std::find(queue_of(rank).begin(), queue_of(rank).end(), &self));
    guard.unlock();
    signals.receive_pending();
    guard.lock();
    auto& same_rank = queue_of(rank);
    const auto later = std::find_if(same_rank.begin(), same_rank.end(), [&](const waiter* each) {
        if (self.goes_first || each->goes_first) return self.goes_first;
        return each->since > self.since;
    });
    same_rank.splice(later, outside);
}

void interruptible_mutex::hand_over() noexcept {
    locked_ = false;
    const auto first = std::find_if(queues_.begin(), queues_.end(),
                                    [](const auto& each) { return !each.empty(); });
    if (first == queues_.end()) return;
    waiter& next = *first->front();
    if (&*first != &queue_of(precedence::other) ||
        std::chrono::steady_clock::now() - next.since >= max_overtaking) {
        locked_ = true;
        next.is_admitted = true;
        first->pop_front();
    }
    next.changed.notify_one();
}

}  // namespace syncguard::sqlite
