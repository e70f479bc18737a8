/// The part of `lease_core` that concerns renewal and the report of losses.
#include "core/lease/lease_monitor.hpp"
#include "core/ttl_limits.hpp"
#include "util/deferred_cancellation.hpp"

#include <syncguard/detail/backend_core.hpp>
#include <syncguard/detail/lease_core.hpp>

#include <algorithm>
#include <memory>
#include <system_error>
#include <utility>

namespace syncguard::detail {

namespace {

[[noreturn]] void throw_no_thread(error_context context, std::exception_ptr cause) {
    throw lock_error(error_code::internal, "no thread can be started that looks after the lock",
                     std::move(context), std::move(cause));
}

[[noreturn]] void throw_lost(loss_reason reason, error_context context, std::exception_ptr cause) {
    throw lock_lost(
        reason,
        reason == loss_reason::expired
            ? "the time of the lock passed while the function ran; check what it did, "
              "and renew the lock (auto_extend) or choose a longer TTL"
            : "the lock was gone before the function had ended: another client released it, "
              "or the store lost it; check what the function did",
        std::move(context), std::move(cause));
}

}  // namespace

/// Null in a forked child, where leases are not monitored.
lease_monitor_entry* lease_core::ensure_monitored() {
    if (!in_owning_process()) return nullptr;
    auto* existing = monitor_entry_.load();
    if (existing != nullptr) return existing;

    auto& monitor = lease_monitor::instance();
    try {
        monitor.ensure_started();
    } catch (const std::system_error&) {
        throw_no_thread({.key = key_, .lock_id = id_.to_string()}, std::current_exception());
    }
    auto created = std::make_unique<lease_monitor_entry>(*this);
    if (!monitor_entry_.compare_exchange_strong(existing, created.get())) return existing;
    auto* entry = created.release();
    // Read the state after the entry is published: any later end of the lease notifies the monitor
    // itself.
    switch (state_.load()) {
        case state::held:
            monitor.watch(*entry);
            break;
        case state::lost:
            monitor.report_loss(*entry, loss_reason::not_held);
            break;
        case state::expired:
            monitor.report_loss(*entry, loss_reason::expired);
            break;
        case state::releasing:
        case state::outcome_unknown:
        case state::gone:
            monitor.forget(*entry);
            break;
    }
    return entry;
}

void lease_core::end_monitoring() noexcept {
    if (auto* entry = monitor_entry_.load()) {
        lease_monitor::instance().forget(*entry);
    }
}

void lease_core::wait_for_handler() noexcept {
    if (auto* entry = monitor_entry_.load(); entry != nullptr && in_owning_process()) {
        lease_monitor::instance().notifier().wait_until_notified(*entry);
    }
}

void lease_core::keep_alive(const keep_alive_options& options) {
    const auto ttl = options.ttl == milliseconds{0} ? ttl_ : checked_ttl(options.ttl);
    auto* const entry = ensure_monitored();
    if (entry == nullptr) return;
    try {
        lease_monitor::instance().renew(*entry, ttl,
                                        backend_->backing_engine()->reserve_io_thread());
    } catch (const std::system_error&) {
        throw_no_thread({.key = key_, .lock_id = id_.to_string()}, std::current_exception());
    }
}

std::stop_token lease_core::stop_token() {
    auto* entry = ensure_monitored();
    if (entry == nullptr) return {};
    return lease_monitor::instance().notifier().token_of(*entry);
}

void lease_core::on_lost(loss_handler handler) {
    if (auto* entry = ensure_monitored()) {
        lease_monitor::instance().notifier().set_handler(*entry, std::move(handler));
    }
}

std::exception_ptr lease_core::renewal_failure() noexcept {
    auto* entry = monitor_entry_.load();
    if (entry == nullptr || !in_owning_process()) return nullptr;
    return lease_monitor::instance().renewal_failure_of(*entry);
}

void lease_core::start_renewal(milliseconds ttl) noexcept {
    const auto notify_monitor = [](lease_core& lease, std::exception_ptr failure) {
        if (!lease.in_owning_process()) return;
        lease_monitor::instance().renewal_ended(*lease.monitor_entry_.load(), std::move(failure));
    };
    try {
        start_extend(
            {.ttl = ttl, .timeout = renewal_timeout(std::min(ttl, renewal_span()))}, {},
            [self = shared_from_this(), notify_monitor](std::exception_ptr failure, extend_result) {
                notify_monitor(*self, std::move(failure));
            });
    } catch (...) {  // not enough memory for the request
        notify_monitor(*this, std::current_exception());
    }
}

void lease_core::expire() noexcept {
    {
        const std::lock_guard guard(extending_);
        // An extension may have been acknowledged since the caller read the deadline.
        if (lease_clock::now() < deadline()) return;
        state expected = state::held;
        if (!state_.compare_exchange_strong(expected, state::expired)) return;
    }
    notify_monitor_of_loss(loss_reason::expired);
}

void lease_core::notify_monitor_of_loss(loss_reason reason) noexcept {
    auto* entry = monitor_entry_.load();
    if (entry == nullptr || !in_owning_process()) return;
    lease_monitor::instance().report_loss(*entry, reason);
}

void lease_core::notify_monitor_of_deadline() noexcept {
    auto* entry = monitor_entry_.load();
    if (entry == nullptr || !in_owning_process()) return;
    lease_monitor::instance().deadline_moved(*entry);
}

void lease_core::finish_work() {
    const deferred_cancellation whole_call;
    const bool held_to_the_end = valid();
    const auto reason = state_ == state::lost ? loss_reason::not_held : loss_reason::expired;
    auto cause = renewal_failure();
    const auto was_held = release_at_the_end();
    detach();  // no second attempt by the destructor; a failure was reported

    error_context context{.key = key_, .lock_id = id_.to_string()};
    if (!held_to_the_end) throw_lost(reason, std::move(context), std::move(cause));
    // A release after the deadline is no proof of a loss: the function had returned before the
    // deadline.
    if (was_held == false && lease_clock::now() < deadline()) {
        throw_lost(loss_reason::not_held, std::move(context), nullptr);
    }
}

}  // namespace syncguard::detail
