/// The part of a lease that is renewed, and whose loss is told.
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
    throw lock_lost(reason,
                    reason == loss_reason::expired
                        ? "the time of the lock passed while the function ran; check what it did, "
                          "and renew the lock (auto_extend) or choose a longer TTL"
                        : "the lock was gone before the function had ended: somebody released it, "
                          "or the store lost it; check what the function did",
                    std::move(context), std::move(cause));
}

}  // namespace

/// Null in a forked child, where nothing is done for a lease.
lease_supervision* lease_core::supervise() {
    if (!in_owning_process()) return nullptr;
    auto* known = supervision_.load();
    if (known != nullptr) return known;

    auto& keeper = lease_keeper::of_this_process();
    try {
        keeper.ensure_started();
    } catch (const std::system_error&) {
        throw_no_thread({.key = key_, .lock_id = id_.to_string()}, std::current_exception());
    }
    auto made = std::make_unique<lease_supervision>(*this);
    if (!supervision_.compare_exchange_strong(known, made.get())) return known;
    auto* supervision = made.release();
    // Asked after it can be seen: what ends the lease from now on tells the keeper itself.
    switch (state_.load()) {
        case state::held:
            keeper.watch(*supervision);
            break;
        case state::lost:
            keeper.lose(*supervision, loss_reason::not_held);
            break;
        case state::expired:
            keeper.lose(*supervision, loss_reason::expired);
            break;
        case state::releasing:
        case state::in_doubt:
        case state::gone:
            keeper.forget(*supervision);
            break;
    }
    return supervision;
}

void lease_core::end_supervision() noexcept {
    if (auto* supervision = supervision_.load()) {
        lease_keeper::of_this_process().forget(*supervision);
    }
}

void lease_core::wait_for_handler() noexcept {
    if (auto* supervision = supervision_.load(); supervision != nullptr && in_owning_process()) {
        lease_keeper::of_this_process().announcer().wait_until_told(*supervision);
    }
}

void lease_core::keep_alive(const keep_alive_options& options) {
    const auto ttl = options.ttl == milliseconds{0} ? ttl_ : checked_ttl(options.ttl);
    auto* const supervision = supervise();
    if (supervision == nullptr) return;
    try {
        lease_keeper::of_this_process().renew(*supervision, ttl,
                                              backend_->store()->reserve_io_thread());
    } catch (const std::system_error&) {
        throw_no_thread({.key = key_, .lock_id = id_.to_string()}, std::current_exception());
    }
}

std::stop_token lease_core::stop_token() {
    auto* supervision = supervise();
    if (supervision == nullptr) return {};
    return lease_keeper::of_this_process().announcer().token_of(*supervision);
}

void lease_core::on_lost(loss_handler handler) {
    if (auto* supervision = supervise()) {
        lease_keeper::of_this_process().announcer().set_handler(*supervision, std::move(handler));
    }
}

std::exception_ptr lease_core::renewal_failure() noexcept {
    auto* supervision = supervision_.load();
    if (supervision == nullptr || !in_owning_process()) return nullptr;
    return lease_keeper::of_this_process().renewal_failure_of(*supervision);
}

void lease_core::start_renewal(milliseconds ttl) noexcept {
    const auto tell_keeper = [](lease_core& lease, std::exception_ptr failure) {
        if (!lease.in_owning_process()) return;
        lease_keeper::of_this_process().renewal_ended(*lease.supervision_.load(),
                                                      std::move(failure));
    };
    try {
        start_extend(
            {.ttl = ttl, .timeout = renewal_timeout(std::min(ttl, renewal_span()))}, {},
            [self = shared_from_this(), tell_keeper](std::exception_ptr failure, extend_result) {
                tell_keeper(*self, std::move(failure));
            });
    } catch (...) {  // no memory to ask with
        tell_keeper(*this, std::current_exception());
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
    tell_keeper_of_loss(loss_reason::expired);
}

void lease_core::tell_keeper_of_loss(loss_reason reason) noexcept {
    auto* supervision = supervision_.load();
    if (supervision == nullptr || !in_owning_process()) return;
    lease_keeper::of_this_process().lose(*supervision, reason);
}

void lease_core::tell_keeper_of_deadline() noexcept {
    auto* supervision = supervision_.load();
    if (supervision == nullptr || !in_owning_process()) return;
    lease_keeper::of_this_process().deadline_moved(*supervision);
}

void lease_core::finish_work() {
    const deferred_cancellation whole_call;
    const bool held_to_the_end = valid();
    const auto reason = state_ == state::lost ? loss_reason::not_held : loss_reason::expired;
    auto cause = renewal_failure();
    const auto had_it = release_at_the_end();
    detach();  // one attempt: whether it failed was told

    error_context context{.key = key_, .lock_id = id_.to_string()};
    if (!held_to_the_end) throw_lost(reason, std::move(context), std::move(cause));
    // A release that merely came late proves nothing: the work was done by then.
    if (had_it == false && lease_clock::now() < deadline()) {
        throw_lost(loss_reason::not_held, std::move(context), nullptr);
    }
}

}  // namespace syncguard::detail
