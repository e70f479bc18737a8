/// `lease`: a held lock as a value, released when it goes out of scope.
#pragma once

#include <syncguard/capabilities.hpp>
#include <syncguard/detail/lease_core.hpp>

#include <exception>
#include <memory>
#include <stop_token>
#include <string_view>
#include <utility>

namespace syncguard {

namespace detail {
struct access;
}

/// Whether `T` (a lease, a `held`, ...) carries a fencing token; for code that accepts any backend.
template <class T>
concept has_fence = requires(const T& value) {
    { value.fence() } -> std::convertible_to<syncguard::fence>;
};

/// Owns one lock. Move-only; a moved-from lease is empty: it is not valid, and only assignment and
/// destruction make sense.
///
/// A lease has its own deadline: the TTL, counted on a monotonic clock from before the request was
/// sent, less a margin for the store's clock (`backend_options::clock_drift`). `valid()` and
/// `remaining()` use this deadline and never ask the store. The deadline passes before the lock
/// ends.
///
/// - Destruction releases the lock, waits at most `backend_options::dispose_timeout` if it is set,
///   and never throws: failures go to `on_release_error` (options.hpp says on which thread). The
///   destructor of a lease from an asynchronous call does not wait; the release goes on in the
///   background.
/// - Fork: only the process that acquired a lock holds it. In a child process, however it was
///   created, the lease is invalid, and its destruction does nothing.
/// - Loss: `keep_alive` renews the lock; `on_lost` and `stop_token` report its loss, whatever the
///   cause.
/// - Thread safety: all members may be called concurrently on one lease, except moving, destroying
///   and `on_release_error`.
/// - Lifetime: a lease keeps its store alive; it may outlive the backend it came from.
template <capability_set Capabilities>
class [[nodiscard]] lease {
  public:
    lease(lease&&) noexcept = default;
    lease& operator=(lease&& other) noexcept {
        if (this != &other) {
            dispose();
            core_ = std::move(other.core_);
        }
        return *this;
    }
    ~lease() { dispose(); }

    /// The lock id. Sensitive: with it, any client can release the lock.
    [[nodiscard]] const syncguard::lock_id& lock_id() const noexcept { return core_->id(); }

    /// The key, in its normal form.
    [[nodiscard]] std::string_view key() const noexcept { return core_->key(); }

    /// Greater than the fences of all earlier grants of this key.
    [[nodiscard]] const syncguard::fence& fence() const noexcept
        requires(Capabilities::supports_fencing) {
        return core_->fence();
    }

    /// When the lock ends by the store's clock.
    [[nodiscard]] unix_time expires_at() const noexcept { return core_->expires_at(); }

    /// Whether the lock can still be relied upon: not released, not detached, not known to be lost,
    /// and its deadline not passed.
    [[nodiscard]] bool valid() const noexcept { return core_ && core_->valid(); }

    /// How long the lock can be relied upon; zero if the lease is not valid.
    [[nodiscard]] milliseconds remaining() const noexcept {
        return core_ ? core_->remaining() : milliseconds{0};
    }

    /// Releases the lock now. `ok` is true once; later calls do nothing and return false. After a
    /// `lock_error` it is unknown whether the store still has the lock: the lease is no longer
    /// valid, and may be released again, at the latest by the destructor. A call that is refused
    /// before it asks the store, because of a negative timeout or a stop request, does not change
    /// the lease.
    release_result release(const call_options& options = {}, std::stop_token stop = {}) {
        return core_->release(options, std::move(stop));
    }

    /// Makes the lock end `options.ttl` from now. If the lock is no longer held, `ok` is false and
    /// the lease becomes invalid; an expired lock is never revived, and an answer after the lease's
    /// deadline counts as "not held".
    ///
    /// A TTL shorter than the remaining time limits the lease as soon as the request is sent. If
    /// the call fails, the store may still execute it at any later time: from then on the lease
    /// relies on no more than that TTL after its last renewal. Throws `lock_error`.
    extend_result extend(const extend_options& options = {}, std::stop_token stop = {}) {
        return core_->extend(options, std::move(stop));
    }

    /// Renews the lock until the lease ends: a third of the TTL after the latest renewal, and again
    /// after a short pause if a renewal fails, until the deadline. One thread schedules the
    /// renewals of all leases of a process; neither this call nor the renewals block other callers.
    /// While the lease is renewed, a networked engine performs its I/O on its own thread, so that
    /// renewals do not depend on callers' threads, which may be in signal handlers; this makes
    /// other calls slower. `release()`, `detach()` and the destructor first end the renewals. A
    /// loss ends them, too; `on_lost` and `stop_token` report it.
    ///
    /// Another call changes the TTL. On a lease that is no longer held it does nothing. Throws
    /// `lock_error`: `invalid_argument` for a TTL that is not acceptable, `internal` if no thread
    /// can be started.
    void keep_alive(const keep_alive_options& options = {}) { core_->keep_alive(options); }

    /// Stop is requested when the lock is lost, with or without `keep_alive`; see loss.hpp. Pass it
    /// to waits that should end then. Throws as `keep_alive` does.
    [[nodiscard]] std::stop_token stop_token() { return core_->stop_token(); }

    /// Calls `handler` when the lock is lost, with or without `keep_alive`, or at once if it is
    /// lost already; see loss.hpp for when, how often and on which thread. Replaces the handler
    /// that was set before. On a lease that was released or detached it does nothing. Throws as
    /// `keep_alive` does.
    void on_lost(loss_handler handler) { core_->on_lost(std::move(handler)); }

    /// Why the last renewal failed; null if it succeeded, or if there was none yet. Use it to warn
    /// before the lock is lost.
    [[nodiscard]] std::exception_ptr renewal_failure() const noexcept {
        return core_->renewal_failure();
    }

    /// Ends the lease without releasing the lock, which stays until it expires or a client releases
    /// it by its id. Returns the id.
    syncguard::lock_id detach() noexcept {
        core_->detach();
        return core_->id();
    }

    /// Replaces the backend's release-error handler for this lease.
    void on_release_error(release_error_handler handler) {
        core_->on_release_error(std::move(handler), release_source::disposal);
    }

  private:
    friend struct detail::access;

    explicit lease(std::shared_ptr<detail::lease_core> core) noexcept : core_(std::move(core)) {}

    void dispose() noexcept {
        if (core_) core_->dispose();
    }

    std::shared_ptr<detail::lease_core> core_;
};

/// The result of one attempt: a lease, or "locked".
///
///     if (auto lease = locks.acquire("invoice:7")) charge(lease->fence());
template <capability_set Capabilities>
class [[nodiscard]] acquire_result {
  public:
    using lease_type = lease<Capabilities>;

    /// Not acquired: another client holds the lock.
    acquire_result() = default;
    explicit acquire_result(lease_type acquired) : lease_(std::move(acquired)) {}

    [[nodiscard]] bool ok() const noexcept { return lease_.has_value(); }
    explicit operator bool() const noexcept { return ok(); }

    /// Set if and only if `ok()` is false.
    [[nodiscard]] std::optional<failure_reason> reason() const noexcept {
        return ok() ? std::nullopt : std::optional(failure_reason::locked);
    }

    [[nodiscard]] lease_type& operator*() & noexcept { return *lease_; }
    [[nodiscard]] const lease_type& operator*() const& noexcept { return *lease_; }
    [[nodiscard]] lease_type&& operator*() && noexcept { return std::move(*lease_); }
    [[nodiscard]] lease_type* operator->() noexcept { return &*lease_; }
    [[nodiscard]] const lease_type* operator->() const noexcept { return &*lease_; }

  private:
    std::optional<lease_type> lease_;
};

}  // namespace syncguard
