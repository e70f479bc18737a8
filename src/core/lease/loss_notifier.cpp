#include "core/lease/loss_notifier.hpp"

#include "core/lease/lease_monitor.hpp"

#include <syncguard/detail/lease_core.hpp>

#include <utility>

namespace syncguard {

namespace {

/// Calls user code, whose exceptions must not end the thread.
void call(const loss_handler& handler, const loss& report) noexcept {
    try {
        handler(report);
    } catch (...) {  // exceptions of handlers are swallowed
    }
}

bool awaits_stop_request(const lease_supervision& lost) noexcept {
    return lost.stop.stop_possible() && !lost.stop.stop_requested();
}

}  // namespace

void lease_supervision::run() noexcept {
    if (left_behind) {
        delete this;
    } else {
        lease_keeper::of_this_process().announcer().tell(*this);
    }
}

void loss_announcer::announce(lease_supervision& whose, std::shared_ptr<detail::lease_core> lease,
                              loss what) noexcept {
    const std::lock_guard guard(mutex_);
    if (whose.closed || whose.lost) return;
    whose.lost = std::move(what);
    if (whose.handler || awaits_stop_request(whose)) enqueue(whose, std::move(lease));
}

/// With the lock held.
void loss_announcer::enqueue(lease_supervision& whose,
                             std::shared_ptr<detail::lease_core> lease) noexcept {
    using enum handler_threads::urgency;
    whose.kept_until_told = std::move(lease);
    threads_.submit(whose, awaits_stop_request(whose) ? stop_request : handler);
}

std::stop_token loss_announcer::token_of(lease_supervision& whose) {
    const std::lock_guard guard(mutex_);
    if (!whose.stop.stop_possible()) {
        whose.stop = std::stop_source();
        // Nobody has it yet: this runs no callback.
        if (whose.lost && !whose.closed) whose.stop.request_stop();
    }
    return whose.stop.get_token();
}

void loss_announcer::set_handler(lease_supervision& whose, loss_handler handler) {
    // Exchanged, so that the former one is destroyed without the lock: it is user code.
    const std::lock_guard guard(mutex_);
    if (whose.closed) return;
    whose.handler.swap(handler);
    const bool will_be_told = whose.kept_until_told || whose.teller != std::thread::id();
    if (whose.lost && whose.handler && !will_be_told) {
        enqueue(whose, whose.lease.shared_from_this());
    }
}

void loss_announcer::close(lease_supervision& whose) noexcept {
    std::shared_ptr<detail::lease_core> dropped_lease;
    loss_handler dropped_handler;
    const std::lock_guard guard(mutex_);
    whose.closed = true;
    if (whose.handler_is_due) return;
    dropped_handler.swap(whose.handler);
    if (threads_.withdraw(whose)) dropped_lease = std::move(whose.kept_until_told);
}

void loss_announcer::wait_until_told(lease_supervision& whose) {
    if (handler_threads::run_this_thread()) return;
    std::unique_lock guard(mutex_);
    told_.wait(guard, [&] { return whose.teller == std::thread::id() && !whose.handler_is_due; });
}

void loss_announcer::tell(lease_supervision& lost) noexcept {
    // Destroyed last, without the mutex: it owns `lost`, and may be the last owner of its store.
    std::shared_ptr<detail::lease_core> lease;
    std::unique_lock guard(mutex_);
    lease = std::move(lost.kept_until_told);
    if (lost.closed && !lost.handler_is_due) return;
    lost.teller = std::this_thread::get_id();
    if (awaits_stop_request(lost)) {
        lost.handler_is_due = bool(lost.handler);
        auto stop = lost.stop;
        guard.unlock();
        stop.request_stop();
        guard.lock();
        lost.handler_is_due = lost.handler_is_due && lost.handler;
        // The handler is queued separately: stop requests of other leases run before it.
        if (lost.handler) enqueue(lost, std::move(lease));
    } else {
        const loss report = *lost.lost;
        lost.handler_is_due = false;
        // Another handler may be set while one runs.
        while (auto handler = std::exchange(lost.handler, {})) {
            guard.unlock();
            call(handler, report);
            handler = nullptr;
            guard.lock();
        }
    }
    lost.teller = {};
    told_.notify_all();
}

}  // namespace syncguard
