#include "core/lease/lease_monitor.hpp"

#include "util/fork_generation.hpp"
#include "util/library_thread.hpp"

#include <syncguard/detail/lease_core.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

namespace syncguard {

namespace {

/// A thread cannot sleep by the lease clock, which goes on while the machine is suspended. So the
/// thread reads the lease clock at least this often.
constexpr std::chrono::seconds max_sleep{1};

/// Leases that were acquired together are renewed together. Thousands of renewals at a time would
/// delay the server's answers to other clients, so there is a pause after each batch of this size.
constexpr std::size_t max_due_actions = 256;
constexpr milliseconds batch_pause{5};

thread_local bool is_monitor_thread = false;

renewal_step next_step_of(const lease_monitor_entry& entry, lease_clock::time_point now) noexcept {
    return next_step({.renewed_at = entry.lease.renewed_at(),
                      .deadline = entry.lease.deadline(),
                      .is_renewed = entry.renewal_ttl > milliseconds{0},
                      .renewal_under_way = entry.renewal_under_way,
                      .retry_not_before = entry.retry_not_before},
                     now);
}

}  // namespace

lease_monitor& lease_monitor::instance() {
    // No mutex, and no function-local static object with a constructor, which implies a mutex:
    // either may be locked during a fork.
    static std::atomic<lease_monitor*> latest{nullptr};
    auto* existing = latest.load(std::memory_order_acquire);
    while (existing == nullptr || existing->process_ != fork_generation()) {
        std::unique_ptr<lease_monitor> created(new lease_monitor);
        if (latest.compare_exchange_strong(existing, created.get())) return *created.release();
    }
    return *existing;
}

bool lease_monitor::runs_this_thread() noexcept {
    return is_monitor_thread;
}

lease_monitor::lease_monitor() : process_(fork_generation()) {
    due_actions_.reserve(max_due_actions);
}

void lease_monitor::ensure_started() {
    const std::lock_guard guard(mutex_);
    if (started_) return;
    handlers_.ensure_started();
    start_thread("syncguard-lease", [this] { run(); }).detach();
    started_ = true;
}

void lease_monitor::watch(lease_monitor_entry& entry) noexcept {
    const std::lock_guard guard(mutex_);
    plan(entry);
}

void lease_monitor::renew(lease_monitor_entry& entry, milliseconds ttl,
                          std::shared_ptr<const void> io_thread) noexcept {
    const std::lock_guard guard(mutex_);
    if (entry.over) return;
    entry.renewal_ttl = ttl;
    // The parameter destroys the previous one after the mutex is released.
    entry.io_thread.swap(io_thread);
    plan(entry);
}

void lease_monitor::deadline_moved(lease_monitor_entry& entry) noexcept {
    const std::lock_guard guard(mutex_);
    plan(entry);
}

void lease_monitor::renewal_ended(lease_monitor_entry& entry, std::exception_ptr failure) noexcept {
    const std::lock_guard guard(mutex_);
    entry.renewal_under_way = false;
    if (failure) {
        entry.retry_not_before =
            lease_clock::now() + renewal_retry_pause(entry.lease.renewal_span());
    }
    entry.renewal_failure.swap(failure);
    plan(entry);
}

std::exception_ptr lease_monitor::renewal_failure_of(lease_monitor_entry& entry) noexcept {
    const std::lock_guard guard(mutex_);
    return entry.renewal_failure;
}

void lease_monitor::report_loss(lease_monitor_entry& entry, loss_reason reason) noexcept {
    std::exception_ptr cause;
    std::shared_ptr<const void> io_thread;
    {
        const std::lock_guard guard(mutex_);
        io_thread = end(entry);
        cause = entry.renewal_failure;
    }
    notifier_.notify(entry, entry.lease.shared_from_this(), {reason, std::move(cause)});
}

void lease_monitor::forget(lease_monitor_entry& entry) noexcept {
    std::shared_ptr<const void> io_thread;
    {
        const std::lock_guard guard(mutex_);
        io_thread = end(entry);
    }
    notifier_.close(entry);
}

/// With the lock held. The caller destroys the result after it has released the lock.
std::shared_ptr<const void> lease_monitor::end(lease_monitor_entry& entry) noexcept {
    entry.over = true;
    plan(entry);
    return std::exchange(entry.io_thread, nullptr);
}

/// Inserts the entry into the schedule by its due time, or removes it. With the lock held.
void lease_monitor::plan(lease_monitor_entry& entry) noexcept {
    if (entry.set_base_hook::is_linked()) schedule_.erase(schedule_.iterator_to(entry));
    if (entry.over) return;
    const auto now = lease_clock::now();
    const auto step = next_step_of(entry, now);
    entry.due = step.action == renewal_step::kind::wait ? step.until : now;
    schedule_.insert(entry);
    if (&*schedule_.begin() == &entry) changed_.notify_one();
}

void lease_monitor::run() {
    is_monitor_thread = true;
    std::unique_lock guard(mutex_);
    while (true) {
        const auto now = lease_clock::now();
        collect_due(now);
        if (!due_actions_.empty()) {
            const bool may_be_more = due_actions_.size() == max_due_actions;
            guard.unlock();
            run_due();
            if (may_be_more) std::this_thread::sleep_for(batch_pause);
            guard.lock();
        } else if (schedule_.empty()) {
            changed_.wait(guard);
        } else {
            changed_.wait_for(
                guard, std::min<lease_clock::duration>(schedule_.begin()->due - now, max_sleep));
        }
    }
}

/// With the lock held.
void lease_monitor::collect_due(lease_clock::time_point now) {
    while (!schedule_.empty() && schedule_.begin()->due <= now &&
           due_actions_.size() < max_due_actions) {
        auto& next = *schedule_.begin();
        schedule_.erase(schedule_.begin());
        const auto step = next_step_of(next, now);
        if (step.action != renewal_step::kind::wait) {
            auto lease = next.lease.weak_from_this().lock();
            if (!lease) continue;  // its destructor waits for the mutex
            due_actions_.push_back({std::move(lease), step.action, next.renewal_ttl});
        }
        if (step.action == renewal_step::kind::give_up) continue;
        if (step.action == renewal_step::kind::renew) next.renewal_under_way = true;
        next.due = step.until;
        schedule_.insert(next);
    }
}

void lease_monitor::run_due() noexcept {
    {
        const handler_threads::batch expired_together(handlers_);
        for (const auto& each : due_actions_)
            if (each.action == renewal_step::kind::give_up) each.lease->expire();
    }
    for (const auto& each : due_actions_)
        if (each.action == renewal_step::kind::renew) each.lease->start_renewal(each.ttl);
    due_actions_.clear();
}

}  // namespace syncguard
