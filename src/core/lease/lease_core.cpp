#include "core/lease/lease_monitor.hpp"
#include "core/lease/lease_monitor_entry.hpp"
#include "core/lease/release_errors.hpp"
#include "util/bounded_wait.hpp"
#include "util/deferred_cancellation.hpp"
#include "util/fork_generation.hpp"

#include <syncguard/detail/backend_core.hpp>
#include <syncguard/detail/lease_core.hpp>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace syncguard::detail {

lease_core::lease_core(grant granted, disposal mode)
    : backend_(std::move(granted.backend)),
      key_(std::move(granted.key)),
      id_(granted.id),
      fence_(granted.fence),
      expires_at_(granted.expires_at.time_since_epoch().count()),
      ttl_(granted.ttl),
      extensions_(granted.sent_at, granted.ttl, backend_->options().clock_drift),
      disposal_(mode),
      owning_process_(fork_generation()) {
    publish_deadline();
}

lease_core::~lease_core() {
    // In a forked child the entry is never destroyed: the parent's threads may have been using it
    // during the fork.
    if (monitor_entry_ == nullptr || !in_owning_process()) return;
    end_monitoring();
    std::unique_ptr<lease_monitor_entry> entry(monitor_entry_.load());
    if (!lease_monitor::runs_this_thread()) return;
    // If this lease is the last owner of a backend, destroying the backend may take long. Renewals
    // of other leases must not wait for that, so a handler thread destroys it.
    entry->to_destroy = {.backend = std::move(backend_),
                         .on_release_error = std::move(on_release_error_)};
    lease_monitor::instance().handlers().submit(*entry.release(),
                                                handler_threads::urgency::handler);
}

bool lease_core::in_owning_process() const noexcept {
    return owning_process_ == fork_generation();
}

unix_time lease_core::expires_at() const noexcept {
    return unix_time(milliseconds(expires_at_.load(std::memory_order_acquire)));
}

lease_clock::time_point lease_core::deadline() const noexcept {
    return lease_clock::time_point(
        lease_clock::duration(deadline_.load(std::memory_order_acquire)));
}

lease_clock::time_point lease_core::renewed_at() const noexcept {
    return lease_clock::time_point(
        lease_clock::duration(renewed_at_.load(std::memory_order_acquire)));
}

milliseconds lease_core::renewal_span() const noexcept {
    return std::chrono::floor<milliseconds>(deadline() - renewed_at());
}

bool lease_core::valid() noexcept {
    return time_left() > lease_clock::duration::zero();
}

milliseconds lease_core::remaining() noexcept {
    return std::chrono::floor<milliseconds>(time_left());
}

lease_clock::duration lease_core::time_left() noexcept {
    constexpr auto none = lease_clock::duration::zero();
    if (state_.load(std::memory_order_acquire) != state::held || !in_owning_process()) return none;
    // Read the clock before the deadline. In the other order, an extension could be acknowledged
    // between the two reads, and the lease would be compared with its previous deadline.
    const auto now = lease_clock::now();
    const auto left = deadline() - now;
    if (left > none) return left;
    expire();
    // An extension may have been acknowledged since the deadline was read.
    return state_ == state::held ? std::max(deadline() - lease_clock::now(), none) : none;
}

void lease_core::on_release_error(release_error_handler handler, release_source source) {
    on_release_error_ = std::move(handler);
    source_ = source;
}

bool lease_core::begin_release() noexcept {
    if (!in_owning_process()) return false;
    bool begun = false;
    for (state expected : {state::held, state::expired, state::outcome_unknown}) {
        begun = begun || state_.compare_exchange_strong(expected, state::releasing);
    }
    // Monitoring ends even if there is nothing to release: the report of a loss may still be
    // queued.
    end_monitoring();
    return begun;
}

void lease_core::end_release(bool failed) noexcept {
    // Not a plain assignment: meanwhile the state may have become `lost`, or `gone` by `detach`.
    state expected = state::releasing;
    state_.compare_exchange_strong(expected, failed ? state::outcome_unknown : state::gone);
    // The lease was destroyed meanwhile, so no later call can release the lock.
    if (failed && disposed_while_releasing_.exchange(false)) dispose_in_background();
}

release_result lease_core::release(const call_options& options, std::stop_token stop) {
    auto limits = backend_->check(options, std::move(stop));
    if (!begin_release()) return {};
    try {
        const release_result result = backend_->release(id_, key_, std::move(limits));
        end_release(false);
        return result;
    } catch (...) {
        end_release(true);
        throw;
    }
}

void lease_core::start_release(const call_options& options, std::stop_token stop,
                               std::function<void(std::exception_ptr, release_result)> handler) {
    call_limits limits;
    try {
        limits = backend_->check(options, std::move(stop));
    } catch (...) {
        handler(std::current_exception(), {});
        return;
    }
    if (!begin_release()) {
        handler(nullptr, {});
        return;
    }
    std::function<void(std::exception_ptr, release_result)> finish;
    try {
        finish = [self = shared_from_this(), handler = std::move(handler)](
                     std::exception_ptr failure, release_result result) mutable {
            self->end_release(failure != nullptr);
            self.reset();
            handler(std::move(failure), result);
        };
    } catch (...) {
        end_release(true);
        throw;
    }
    backend_->start_release(id_, key_, std::move(limits), std::move(finish));
}

/// Records that an extension is about to be sent. Returns nullopt if the lease is not valid: an
/// expired lock is never revived, so no request is sent.
std::optional<lease_deadline::ticket> lease_core::begin_extend(milliseconds ttl) {
    if (!valid()) return {};
    lease_deadline::ticket extension{};
    bool ends_earlier = false;
    {
        const std::lock_guard guard(extending_);
        const auto before = deadline();
        extension = extensions_.send(lease_clock::now(), ttl);
        publish_deadline();
        ends_earlier = deadline() < before;
    }
    if (ends_earlier) notify_monitor_of_deadline();
    return extension;
}

/// Records the answer to an extension; `result` is null if the call failed. If the answer came too
/// late, `*result` becomes "not held".
void lease_core::end_extend(extend_result* result, lease_deadline::ticket extension) noexcept {
    std::optional<loss_reason> found_lost;
    {
        const std::lock_guard guard(extending_);
        if (result == nullptr) {
            if (backend_->backing_engine()->executes_extensions_in_order()) {
                extensions_.mark_failed(extension, lease_clock::now());
            } else {
                extensions_.mark_unknown(extension);
            }
            return;
        }
        found_lost = note_extension(*result, extension);
    }
    if (found_lost) {
        notify_monitor_of_loss(*found_lost);
    } else if (result->ok) {
        notify_monitor_of_deadline();
    }
}

/// Called with `extending_` locked. Returns the reason if this answer shows that the lease is lost.
std::optional<loss_reason> lease_core::note_extension(extend_result& result,
                                                      lease_deadline::ticket extension) noexcept {
    state expected = state::held;
    if (!result.ok) {
        if (state_.compare_exchange_strong(expected, state::lost)) return loss_reason::not_held;
        if (expected != state::lost) state_ = state::gone;
        return {};
    }
    // Between the deadline and this answer another client may have held the lock. A loss that was
    // reported, or made `valid()` false, is final.
    const auto now = lease_clock::now();
    if (state_ != state::held || now >= deadline()) {
        result = {};
        if (state_.compare_exchange_strong(expected, state::expired)) return loss_reason::expired;
        return {};
    }
    extensions_.acknowledge(extension, now);
    expires_at_ = result.expires_at.time_since_epoch().count();
    publish_deadline();
    return {};
}

/// Called with `extending_` locked, except in the constructor.
void lease_core::publish_deadline() noexcept {
    deadline_ = extensions_.deadline().time_since_epoch().count();
    renewed_at_ = extensions_.renewed_at().time_since_epoch().count();
}

extend_result lease_core::extend(const extend_options& options, std::stop_token stop) {
    auto limits = backend_->check(options, std::move(stop));
    const auto extension = begin_extend(options.ttl);
    if (!extension) return {};
    try {
        extend_result result = backend_->extend(id_, key_, options.ttl, std::move(limits));
        end_extend(&result, *extension);
        return result;
    } catch (...) {
        end_extend(nullptr, *extension);
        throw;
    }
}

void lease_core::start_extend(const extend_options& options, std::stop_token stop,
                              std::function<void(std::exception_ptr, extend_result)> handler) {
    std::optional<lease_deadline::ticket> extension;
    call_limits limits;
    try {
        limits = backend_->check(options, std::move(stop));
        extension = begin_extend(options.ttl);
    } catch (...) {
        handler(std::current_exception(), {});
        return;
    }
    if (!extension) {
        handler(nullptr, {});
        return;
    }
    std::function<void(std::exception_ptr, extend_result)> finish;
    try {
        finish = [self = shared_from_this(), handler = std::move(handler), extension = *extension](
                     std::exception_ptr failure, extend_result result) mutable {
            self->end_extend(failure ? nullptr : &result, extension);
            self.reset();
            handler(std::move(failure), result);
        };
    } catch (...) {
        end_extend(nullptr, *extension);
        throw;
    }
    backend_->start_extend(id_, key_, options.ttl, std::move(limits), std::move(finish));
}

void lease_core::detach() noexcept {
    state_ = state::gone;
    if (in_owning_process()) end_monitoring();
}

void lease_core::dispose() noexcept {
    const deferred_cancellation whole_call;
    if (state_ == state::releasing && in_owning_process()) {
        // An asynchronous release is in flight, and may be cancelled or fail after this call.
        disposed_while_releasing_ = true;
        if (state_ == state::releasing) {
            end_monitoring();
            if (disposal_ == disposal::blocking) wait_for_handler();
            return;
        }
        disposed_while_releasing_ = false;  // the release has just ended
    }
    (void)release_at_the_end();
    // The loss handler may still be running, and often refers to objects with the same scope as the
    // lease.
    if (disposal_ == disposal::blocking) wait_for_handler();
}

/// Releases the lock, in the background if `disposal_` says so. Returns whether the store still had
/// it; nullopt if that is not known.
std::optional<bool> lease_core::release_at_the_end() noexcept {
    const auto& limit = backend_->options().dispose_timeout;
    if (disposal_ == disposal::background) {
        dispose_in_background();
        return {};
    }
    if (!limit) {
        try {
            return release({}, {}).ok;
        } catch (...) {
            report(std::current_exception());
        }
        return {};
    }

    // The time limit must hold even if the engine is in a system call that it cannot interrupt, so
    // the release is asynchronous and this thread only waits for it.
    struct pending_result {
        std::mutex mutex;
        std::condition_variable changed;
        bool finished = false;
        std::exception_ptr failure;
        std::optional<bool> was_held;
    };
    try {
        auto pending = std::make_shared<pending_result>();
        start_release({}, {}, [pending](std::exception_ptr failure, release_result result) {
            const std::lock_guard guard(pending->mutex);
            pending->finished = true;
            if (!failure) pending->was_held = result.ok;
            pending->failure = std::move(failure);
            pending->changed.notify_one();
        });
        std::unique_lock guard(pending->mutex);
        if (!pending->changed.wait_for(guard, bounded_wait(*limit),
                                       [&] { return pending->finished; })) {
            throw lock_error(error_code::network_timeout,
                             "the release did not finish within dispose_timeout; it goes on in the "
                             "background",
                             {.key = key_, .lock_id = id_.to_string()});
        }
        if (pending->failure) std::rethrow_exception(pending->failure);
        return pending->was_held;
    } catch (...) {
        report(std::current_exception());
    }
    return {};
}

void lease_core::dispose_in_background() noexcept {
    try {
        start_release({}, {}, [self = shared_from_this()](std::exception_ptr failure, auto) {
            if (failure) self->report_on_handler_thread(std::move(failure));
        });
    } catch (...) {
        report_on_handler_thread(std::current_exception());
    }
}

/// Reports on a handler thread. The calling thread may be that of any caller, in the middle of an
/// unrelated call.
void lease_core::report_on_handler_thread(std::exception_ptr failure) noexcept {
    try {
        lease_monitor::instance().handlers().post(
            [self = shared_from_this(), failure = std::move(failure)] { self->report(failure); });
    } catch (...) {  // not enough memory for the report
    }
}

void lease_core::report(const std::exception_ptr& failure) noexcept {
    if (has_reported_.exchange(true)) return;
    const auto& handler =
        on_release_error_ ? on_release_error_ : backend_->options().on_release_error;
    report_release_error(handler, failure, {.key = key_, .lock_id = id_.str(), .source = source_});
}

}  // namespace syncguard::detail
