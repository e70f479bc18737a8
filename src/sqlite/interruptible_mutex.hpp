/// A mutex with three priorities and time limits: extensions lock it before releases, and releases
/// before all others; callers of the same priority lock it in the order of their arrival.
#pragma once

#include "util/library_thread.hpp"

#include <syncguard/engine.hpp>

#include <array>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>

namespace syncguard::sqlite {

enum class precedence { extension, release, other };

/// A caller should block signals from before it locks the mutex until it has unlocked it, because
/// no other caller can lock the mutex while this thread runs a signal handler. With `signals`, a
/// waiting caller receives signals: it leaves the queue, runs the handlers, and returns to its
/// former place.
class interruptible_mutex {
  public:
    /// Throws `lock_error`: `network_timeout` or `aborted`.
    void lock(const call_limits& limits, precedence rank, const signals_blocked* signals = nullptr);
    /// False if the mutex is locked or another caller waits for it.
    [[nodiscard]] bool try_lock() noexcept;
    /// Locks before all waiting callers, without a time limit.
    void lock();
    void unlock() noexcept;

    /// If callers of a higher rank wait, unlocks the mutex for them, and locks it again as the
    /// first caller of its own rank. Throws as `lock` does; then the mutex is not locked.
    void yield_to_higher_ranks(const call_limits& limits, precedence rank,
                               const signals_blocked* signals = nullptr);

  private:
    struct waiter {
        const std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
        std::condition_variable_any changed;
        bool is_admitted = false;
        bool goes_first = false;  ///< It had the mutex and let higher ranks pass.
    };
    using queue = std::list<waiter*>;

    [[nodiscard]] queue& queue_of(precedence rank) {
        return queues_.at(static_cast<std::size_t>(rank));
    }
    /// With the mutex locked. `self` is in the queue of its rank.
    void wait(std::unique_lock<std::mutex>& guard, waiter& self, precedence rank,
              const call_limits& limits, const signals_blocked* signals);
    /// With the mutex locked, except while handlers run. `self` is in the queue of its rank.
    void receive_signals(std::unique_lock<std::mutex>& guard, waiter& self, precedence rank,
                         const signals_blocked& signals) noexcept;
    /// With the mutex locked.
    void hand_over() noexcept;

    std::mutex mutex_;
    bool locked_ = false;
    std::array<queue, 3> queues_;
};

/// Holds the mutex for a scope.
class interruptible_lock {
  public:
    interruptible_lock(interruptible_mutex& mutex, const call_limits& limits, precedence rank,
                       const signals_blocked* signals = nullptr)
        : mutex_(mutex), rank_(rank), signals_(signals) {
        mutex_.lock(limits, rank, signals);
    }
    interruptible_lock(interruptible_mutex& mutex, std::adopt_lock_t /*is locked*/, precedence rank,
                       const signals_blocked* signals = nullptr) noexcept
        : mutex_(mutex), rank_(rank), signals_(signals) {}
    interruptible_lock(const interruptible_lock&) = delete;
    interruptible_lock& operator=(const interruptible_lock&) = delete;
    ~interruptible_lock() {
        if (is_locked_) mutex_.unlock();
    }

    void yield_to_higher_ranks(const call_limits& limits) {
        is_locked_ = false;
        mutex_.yield_to_higher_ranks(limits, rank_, signals_);
        is_locked_ = true;
    }

  private:
    interruptible_mutex& mutex_;
    const precedence rank_;
    const signals_blocked* const signals_;
    bool is_locked_ = true;
};

}  // namespace syncguard::sqlite
