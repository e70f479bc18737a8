/// `lock()`: run a function while holding a lock.
#pragma once

#include <syncguard/backend.hpp>
#include <syncguard/loss.hpp>
#include <syncguard/retry.hpp>

#include <concepts>
#include <functional>
#include <optional>
#include <stop_token>
#include <string_view>
#include <type_traits>
#include <utility>

namespace syncguard {

/// Options of `lock()`. The defaults are those of the specification: ten retries, 100 ms,
/// exponential with equal jitter, five seconds in total.
struct lock_options {
    milliseconds ttl = default_ttl;
    /// The time for all attempts. `milliseconds::max()`: until it succeeds or `stop` is requested.
    milliseconds timeout{5'000};
    retry_policy retry{};
    /// A stop request ends the wait at once with `aborted`. It does not stop the release.
    std::stop_token stop{};
    /// Receives failures of this call's release. Unset: the backend's handler.
    release_error_handler on_release_error{};
    /// Whether the lock is renewed while the function runs. If not, the TTL bounds its work.
    bool auto_extend = false;
    /// Called if the lock is lost while the function runs; see loss.hpp.
    loss_handler on_lost{};
};

/// The lock that a function runs under, if the backend has no fences.
class unfenced_held {
  public:
    explicit unfenced_held(detail::lease_core& core) noexcept : core_(&core) {}

    [[nodiscard]] const syncguard::lock_id& lock_id() const noexcept { return core_->id(); }
    [[nodiscard]] std::string_view key() const noexcept { return core_->key(); }
    [[nodiscard]] unix_time expires_at() const noexcept { return core_->expires_at(); }

    /// Whether the lock can still be relied upon. Call it before every step that must not be done
    /// twice.
    [[nodiscard]] bool valid() const noexcept { return core_->valid(); }
    [[nodiscard]] milliseconds remaining() const noexcept { return core_->remaining(); }

    /// Stop is requested when the lock is lost; see loss.hpp. Throws `lock_error` (`internal`) if
    /// no thread can be started for it.
    [[nodiscard]] std::stop_token stop_token() { return core_->stop_token(); }

    /// Makes the lock end `options.ttl` from now. Throws `lock_error`.
    extend_result extend(const extend_options& options = {}, std::stop_token stop = {}) {
        return core_->extend(options, std::move(stop));
    }

  protected:
    detail::lease_core* core_;
};

/// The lock that a function runs under. Valid only during the call of that function.
class held : public unfenced_held {
  public:
    using unfenced_held::unfenced_held;

    [[nodiscard]] const syncguard::fence& fence() const noexcept { return core_->fence(); }
};

/// `held`, or `unfenced_held` for a backend without fences.
template <capability_set Capabilities>
using held_for = std::conditional_t<Capabilities::supports_fencing, held, unfenced_held>;

namespace detail {

[[nodiscard]] std::shared_ptr<lease_core> acquire_with_retries(const backend_core& backend,
                                                               std::string_view key,
                                                               const lock_options& options);

/// If the lease's deadline has passed, releases it and throws `lock_error` (`acquisition_timeout`).
void refuse_if_expired(lease_core& lease);

}  // namespace detail

/// Acquires with the retries of `lock()`, and returns a lease. There is always at least one
/// attempt. Throws `lock_error`: `acquisition_timeout` when retries or time run out (its `cause()`
/// is the last failure if the store did not answer at the end), `aborted` when `options.stop` is
/// requested, `invalid_argument`, and system failures of the first attempt other than
/// `rate_limited`. A caller that has begun to wait keeps trying when the store fails.
///
/// Waiting: if the store sends a notification when the lock becomes free, this ends the pause
/// between two attempts, and does not count as a retry. Callers of one backend that wait for the
/// same key are served in the order of their arrival; the first caller asks the store, the others
/// ask only shortly before their timeout ends.
///
/// If the store sends no notifications, each caller makes its own attempts, in no order. The first
/// caller in the queue makes additional attempts in between, at least every 300 ms, or after the
/// first pause of its policy if that is longer; these do not count as retries. A client that
/// acquires one key again and again pauses to let other clients acquire it: if others were granted
/// the key since the client's own previous grant, it pauses after a release for as long as it had
/// held the key, from 20 to 300 ms; otherwise it pauses for 300 ms after every two seconds of
/// repeated acquisitions.
///
/// Thread cancellation (`pthread_cancel`) takes effect after the call; `options.stop` ends the
/// waiting.
///
/// Thread safety: as the backend's. `options.stop` wakes a waiting caller at once.
template <lock_backend B>
[[nodiscard]] lease<typename B::capabilities_type> acquire_with_retries(
    const B& backend, std::string_view key, const lock_options& options = {}) {
    auto acquired = detail::access::result<typename B::capabilities_type>(
        detail::acquire_with_retries(detail::access::core(backend), key, options));
    if (options.on_release_error) acquired->on_release_error(options.on_release_error);
    return *std::move(acquired);
}

/// Acquires the lock, calls `fn` with a `held&` or without arguments, and releases the lock.
/// Returns the result of `fn` (void, a reference or a movable value). An exception from `fn` is
/// rethrown after the release.
///
/// If the lease's deadline passes before the call of `fn`, `fn` is not called: this throws
/// `acquisition_timeout`.
///
/// Throws what `acquire_with_retries` throws, and `lock_lost` if the lock was lost before `fn`
/// returned: its TTL passed, or the store no longer had it at the release. The result of `fn` is
/// dropped then. A release that fails or is late is no loss and does not throw; see
/// `lock_options::on_release_error`.
template <lock_backend B, class Fn>
requires std::invocable < Fn, held_for<typename B::capabilities_type>
& > || std::invocable<Fn> decltype(auto) lock(const B& backend, std::string_view key, Fn&& fn,
                                              const lock_options& options = {}) {
    using capabilities = typename B::capabilities_type;

    auto lease = acquire_with_retries(backend, key, options);
    auto& core = detail::access::core(lease);
    core.on_release_error(options.on_release_error, release_source::lock_helper);
    if (options.on_lost) core.on_lost(options.on_lost);
    if (options.auto_extend) core.keep_alive({});
    detail::refuse_if_expired(core);
    const auto work = [&]() -> decltype(auto) {
        held_for<capabilities> held(core);
        if constexpr (std::invocable<Fn, held_for<capabilities>&>) {
            return std::invoke(std::forward<Fn>(fn), held);
        } else {
            return std::invoke(std::forward<Fn>(fn));
        }
    };

    using result = decltype(work());
    if constexpr (std::is_void_v<result>) {
        work();
        core.finish_work();
    } else if constexpr (std::is_reference_v<result>) {
        auto&& returned = work();
        core.finish_work();
        return static_cast<result>(returned);
    } else {
        result returned = work();
        core.finish_work();
        return returned;
    }
}

}  // namespace syncguard
