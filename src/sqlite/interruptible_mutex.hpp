/// A mutex with three priorities and time limits: extensions enter before releases, and releases
/// before all others; callers of the same priority enter in the order of their arrival.
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

///
/// A caller should block signals from before it enters until it has left: nobody else enters while
/// its thread runs a signal handler. With `signals`, it receives them while it waits, outside the
/// queue, and then has its former place again.
class gate {
  public:
    /// Throws `lock_error`: `network_timeout` or `aborted`.
    void enter(const call_limits& limits, precedence rank,
               const signals_blocked* signals = nullptr);
    /// False if another caller is inside or waits.
    [[nodiscard]] bool try_enter() noexcept;
    /// Enters before all waiting callers, without a time limit.
    void enter();
    void leave() noexcept;

    /// If callers of a higher rank wait, leaves the gate, lets them pass, and enters again as the
    /// first of its own rank. Throws as `enter` does; then the gate has been left.
    void let_higher_ranks_pass(const call_limits& limits, precedence rank,
                               const signals_blocked* signals = nullptr);

  private:
    struct waiter {
        const std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
        std::condition_variable_any may_enter;
        bool is_admitted = false;
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
    void open() noexcept;

    std::mutex mutex_;
    bool taken_ = false;
    std::array<queue, 3> queues_;
};

/// Inside the gate for a scope.
class passage {
  public:
    passage(gate& through, const call_limits& limits, precedence rank,
            const signals_blocked* signals = nullptr)
        : through_(through), rank_(rank), signals_(signals) {
        through_.enter(limits, rank, signals);
    }
    passage(gate& through, std::adopt_lock_t /*is inside*/, precedence rank,
            const signals_blocked* signals = nullptr) noexcept
        : through_(through), rank_(rank), signals_(signals) {}
    passage(const passage&) = delete;
    passage& operator=(const passage&) = delete;
    ~passage() {
        if (is_inside_) through_.leave();
    }

    void let_higher_ranks_pass(const call_limits& limits) {
        is_inside_ = false;
        through_.let_higher_ranks_pass(limits, rank_, signals_);
        is_inside_ = true;
    }

  private:
    gate& through_;
    const precedence rank_;
    const signals_blocked* const signals_;
    bool is_inside_ = true;
};

}  // namespace syncguard::sqlite
