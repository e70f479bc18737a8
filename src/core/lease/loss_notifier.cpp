#include "core/lease/loss_notifier.hpp"

#include "core/lease/lease_monitor.hpp"

#include <syncguard/detail/lease_core.hpp>

#include <utility>

namespace syncguard {

namespace {

/// Exceptions from user code must not end the thread.
void call(const loss_handler& handler, const loss& report) noexcept {
    try {
        handler(report);
    } catch (...) {  // exceptions of handlers are swallowed
    }
}

bool awaits_stop_request(const lease_monitor_entry& entry) noexcept {
    return entry.stop.stop_possible() && !entry.stop.stop_requested();
}

}  // namespace

void lease_monitor_entry::run() noexcept {
    if (to_destroy) {
        delete this;
    } else {
        lease_monitor::instance().notifier().notify_one(*this);
    }
}

void loss_notifier::notify(lease_monitor_entry& entry, std::shared_ptr<detail::lease_core> lease,
                           loss event) noexcept {
    const std::lock_guard guard(mutex_);
    if (entry.closed || entry.lost) return;
    entry.lost = std::move(event);
    if (entry.handler || awaits_stop_request(entry)) enqueue(entry, std::move(lease));
}

/// With the lock held.
void loss_notifier::enqueue(lease_monitor_entry& entry,
                            std::shared_ptr<detail::lease_core> lease) noexcept {
    using enum handler_threads::urgency;
    entry.kept_until_notified = std::move(lease);
    threads_.submit(entry, awaits_stop_request(entry) ? stop_request : handler);
}

std::stop_token loss_notifier::token_of(lease_monitor_entry& entry) {
    const std::lock_guard guard(mutex_);
    if (!entry.stop.stop_possible()) {
        entry.stop = std::stop_source();
        // No caller has the token yet: this runs no callback.
        if (entry.lost && !entry.closed) entry.stop.request_stop();
    }
    return entry.stop.get_token();
}

void loss_notifier::set_handler(lease_monitor_entry& entry, loss_handler handler) {
    // `swap`, so that the previous handler, which is user code, is destroyed after the mutex is
    // released.
    const std::lock_guard guard(mutex_);
    if (entry.closed) return;
    entry.handler.swap(handler);
    const bool will_be_notified =
        entry.kept_until_notified || entry.notifying_thread != std::thread::id();
    if (entry.lost && entry.handler && !will_be_notified) {
        enqueue(entry, entry.lease.shared_from_this());
    }
}

void loss_notifier::close(lease_monitor_entry& entry) noexcept {
    std::shared_ptr<detail::lease_core> dropped_lease;
    loss_handler dropped_handler;
    const std::lock_guard guard(mutex_);
    entry.closed = true;
    if (entry.handler_is_due) return;
    dropped_handler.swap(entry.handler);
    if (threads_.cancel(entry)) dropped_lease = std::move(entry.kept_until_notified);
}

void loss_notifier::wait_until_notified(lease_monitor_entry& entry) {
    if (handler_threads::run_this_thread()) return;
    std::unique_lock guard(mutex_);
    notified_.wait(guard, [&] {
        return entry.notifying_thread == std::thread::id() && !entry.handler_is_due;
    });
}

void loss_notifier::notify_one(lease_monitor_entry& entry) noexcept {
    // Destroyed last, without the mutex: it owns `entry`, and may be the last owner of its store.
    std::shared_ptr<detail::lease_core> lease;
    std::unique_lock guard(mutex_);
    lease = std::move(entry.kept_until_notified);
    if (entry.closed && !entry.handler_is_due) return;
    entry.notifying_thread = std::this_thread::get_id();
    if (awaits_stop_request(entry)) {
        entry.handler_is_due = bool(entry.handler);
        auto stop = entry.stop;
        guard.unlock();
        stop.request_stop();
        guard.lock();
        entry.handler_is_due = entry.handler_is_due && entry.handler;
        // The handler is queued separately: stop requests of other leases run before it.
        if (entry.handler) enqueue(entry, std::move(lease));
    } else {
        const loss report = *entry.lost;
        entry.handler_is_due = false;
        // Another handler may be set while one runs.
        while (auto handler = std::exchange(entry.handler, {})) {
            guard.unlock();
            call(handler, report);
            handler = nullptr;
            guard.lock();
        }
    }
    entry.notifying_thread = {};
    notified_.notify_all();
}

}  // namespace syncguard
