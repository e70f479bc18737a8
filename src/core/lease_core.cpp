#include "fork_generation.hpp"
#include "longest_wait.hpp"
#include "release_errors.hpp"

#include <syncguard/detail/backend_core.hpp>
#include <syncguard/detail/lease_core.hpp>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace syncguard::detail {

lease_core::lease_core(grant granted, disposal how_to_dispose)
    : backend_(std::move(granted.backend)),
      key_(std::move(granted.key)),
      id_(granted.id),
      fence_(granted.fence),
      expires_at_(granted.expires_at.time_since_epoch().count()),
      deadline_(granted.deadline.time_since_epoch().count()),
      how_to_dispose_(how_to_dispose),
      owning_process_(fork_generation()) {}

bool lease_core::in_owning_process() const noexcept {
    return owning_process_ == fork_generation();
}

unix_time lease_core::expires_at() const noexcept {
    return unix_time(milliseconds(expires_at_.load(std::memory_order_acquire)));
}

bool lease_core::valid() const noexcept {
    return remaining() > milliseconds{0};
}

milliseconds lease_core::remaining() const noexcept {
    if (state_.load(std::memory_order_acquire) != state::held || !in_owning_process()) {
        return milliseconds{0};
    }
    const lease_clock::time_point deadline(
        lease_clock::duration(deadline_.load(std::memory_order_acquire)));
    const auto left = std::chrono::floor<milliseconds>(deadline - lease_clock::now());
    return std::max(left, milliseconds{0});
}

void lease_core::on_release_error(release_error_handler handler, release_source source) {
    on_release_error_ = std::move(handler);
    source_ = source;
}

bool lease_core::begin_release() noexcept {
    if (!in_owning_process()) return false;
    for (state expected : {state::held, state::in_doubt}) {
        if (state_.compare_exchange_strong(expected, state::releasing)) return true;
    }
    return false;
}

void lease_core::end_release(bool failed) noexcept {
    // Not simply stored: meanwhile the lock may have been found gone, or detached.
    state expected = state::releasing;
    state_.compare_exchange_strong(expected, failed ? state::in_doubt : state::gone);
}

release_result lease_core::release(const call_options& options, std::stop_token stop) {
    if (!begin_release()) return {};
    try {
        const release_result result = backend_->release(id_, key_, options, std::move(stop));
        end_release(false);
        return result;
    } catch (...) {
        end_release(true);
        throw;
    }
}

void lease_core::start_release(const call_options& options, std::stop_token stop,
                               std::function<void(std::exception_ptr, release_result)> done) {
    if (!begin_release()) {
        done(nullptr, {});
        return;
    }
    backend_->start_release(id_, key_, options, std::move(stop),
                            [self = shared_from_this(), done = std::move(done)](
                                std::exception_ptr failure, release_result result) mutable {
                                self->end_release(failure != nullptr);
                                self.reset();
                                done(std::move(failure), result);
                            });
}

bool lease_core::begin_extend() noexcept {
    if (state_ != state::held || !in_owning_process()) return false;
    const std::lock_guard guard(extending_);
    if (extends_under_way_++ == 0) earliest_of_overlapping_ = lease_clock::time_point::max();
    return true;
}

/// `result` is null if the extension failed.
void lease_core::end_extend(const extend_result* result,
                            lease_clock::time_point deadline) noexcept {
    const std::lock_guard guard(extending_);
    --extends_under_way_;
    if (result == nullptr) return;
    if (!result->ok) {
        state_ = state::gone;
        return;
    }
    // Of extensions that overlap nobody knows which the store did last: the shorter one counts.
    earliest_of_overlapping_ = std::min(earliest_of_overlapping_, deadline);
    expires_at_ = result->expires_at.time_since_epoch().count();
    deadline_ = earliest_of_overlapping_.time_since_epoch().count();
}

extend_result lease_core::extend(const extend_options& options, std::stop_token stop) {
    if (!begin_extend()) return {};
    const auto sent_at = lease_clock::now();
    try {
        const extend_result result = backend_->extend(id_, key_, options, std::move(stop));
        end_extend(&result, sent_at + options.ttl);
        return result;
    } catch (...) {
        end_extend(nullptr, {});
        throw;
    }
}

void lease_core::start_extend(const extend_options& options, std::stop_token stop,
                              std::function<void(std::exception_ptr, extend_result)> done) {
    if (!begin_extend()) {
        done(nullptr, {});
        return;
    }
    backend_->start_extend(
        id_, key_, options, std::move(stop),
        [self = shared_from_this(), done = std::move(done), sent_at = lease_clock::now(),
         ttl = options.ttl](std::exception_ptr failure, extend_result result) mutable {
            if (failure) {
                self->end_extend(nullptr, {});
            } else {
                self->end_extend(&result, sent_at + ttl);
            }
            self.reset();
            done(std::move(failure), result);
        });
}

void lease_core::detach() noexcept {
    state_ = state::gone;
}

void lease_core::dispose() noexcept {
    const auto& limit = backend_->options().dispose_timeout;
    if (how_to_dispose_ == disposal::background) {
        dispose_in_background(nullptr);
        return;
    }
    if (!limit) {
        try {
            (void)release({}, {});
        } catch (...) {
            report(std::current_exception());
        }
        return;
    }

    // The bound must hold even if the engine is stuck in something that it cannot interrupt, so the
    // release runs elsewhere and this thread only waits for it.
    struct rendezvous {
        std::mutex mutex;
        std::condition_variable changed;
        bool finished = false;
    };
    try {
        auto meeting = std::make_shared<rendezvous>();
        dispose_in_background([meeting] {
            const std::lock_guard guard(meeting->mutex);
            meeting->finished = true;
            meeting->changed.notify_one();
        });
        std::unique_lock guard(meeting->mutex);
        if (!meeting->changed.wait_for(guard, bounded_wait(*limit),
                                       [&] { return meeting->finished; })) {
            throw lock_error(error_code::network_timeout,
                             "the release did not finish within dispose_timeout; it goes on in the "
                             "background",
                             {.key = key_, .lock_id = id_.to_string()});
        }
    } catch (...) {
        report(std::current_exception());
    }
}

void lease_core::dispose_in_background(const std::function<void()>& finished) noexcept {
    try {
        start_release({}, {},
                      [self = shared_from_this(), finished](std::exception_ptr failure,
                                                            release_result) mutable {
                          if (failure) self->report(std::move(failure));
                          self.reset();
                          if (finished) finished();
                      });
    } catch (...) {
        report(std::current_exception());
        if (finished) finished();
    }
}

void lease_core::report(std::exception_ptr failure) const noexcept {
    const auto& handler =
        on_release_error_ ? on_release_error_ : backend_->options().on_release_error;
    report_release_error(handler, std::move(failure),
                         {.key = key_, .lock_id = id_.str(), .source = source_});
}

}  // namespace syncguard::detail
