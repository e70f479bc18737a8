/// The options of calls and of backends.
#pragma once

#include <syncguard/error.hpp>
#include <syncguard/time.hpp>

#include <functional>
#include <optional>
#include <string_view>
#include <type_traits>

namespace syncguard {

inline constexpr milliseconds default_ttl{30'000};

/// The longest TTL. With this limit, the sum of a time and a TTL is a valid time in every store.
inline constexpr milliseconds max_ttl{std::chrono::years{100}};

/// Options of every call. A `timeout` of zero means the backend's `operation_timeout`.
struct call_options {
    milliseconds timeout{0};
};

/// Options of an acquisition. `ttl` must be positive and at most `max_ttl`.
struct acquire_options {
    milliseconds ttl = default_ttl;
    milliseconds timeout{0};
};

/// Options of an extension: the lock ends `ttl` from now, however much time remained.
struct extend_options {
    milliseconds ttl = default_ttl;
    milliseconds timeout{0};
};

/// Options of `lease::keep_alive`.
struct keep_alive_options {
    /// The TTL of each renewal. Zero: that of the acquisition.
    milliseconds ttl{0};
};

// g++ 12 destroys aggregates with non-trivial members twice when they are brace-initialised inside
// a co_await expression. Options that need no destructor are safe there.
static_assert(std::is_trivially_destructible_v<call_options>);
static_assert(std::is_trivially_destructible_v<acquire_options>);
static_assert(std::is_trivially_destructible_v<extend_options>);
static_assert(std::is_trivially_destructible_v<keep_alive_options>);

/// The origin of a failed release.
enum class release_source {
    disposal,     ///< The destructor of a lease.
    lock_helper,  ///< The end of a `lock()` call.
};

[[nodiscard]] constexpr std::string_view to_string(release_source source) noexcept {
    return source == release_source::disposal ? "disposal" : "lock";
}

/// The second argument of a release-error handler. The views are valid during the call.
struct release_error_context {
    std::string_view key;
    std::string_view lock_id;
    release_source source;
};

/// Receives system failures of releases that cannot be reported by an exception, at most once for
/// each lease:
///
/// - If the destructor of the lease, or `lock()`, waits for the release: on the calling thread,
///   before it returns. A failure after `dispose_timeout` is not reported again.
/// - If the destructor does not wait, because the lease came from an asynchronous call or an
///   asynchronous release was under way: on a thread of the library that runs only handlers, after
///   the destructor has returned.
/// - If an engine's grant was refused (a fence out of range): on such a thread, too.
///
/// It never runs inside an unrelated call. Exceptions from it are swallowed.
using release_error_handler =
    std::function<void(const lock_error& error, const release_error_context& context)>;

/// Receives warnings for the operator. The text holds hashes of keys, never keys, lock ids or their
/// hashes. It is called on threads of the library that run only handlers, never inside a call;
/// calls may overlap, and the last ones may come after the destruction of the backend. Exceptions
/// from it are swallowed.
using warning_handler = std::function<void(std::string_view message)>;

/// Options that all backends share.
struct backend_options {
    /// The timeout of calls without one of their own.
    milliseconds operation_timeout{5'000};

    /// Receives failures of releases in destructors. Default: one line on the standard error,
    /// without key and lock id. There is no such line if the environment has
    /// `SYNCGUARD_ENV=production`, unless it also has `SYNCGUARD_DEBUG=true`.
    release_error_handler on_release_error;

    /// How long a destructor may wait for its release. Unset: as long as `operation_timeout`.
    /// Afterwards the release goes on in the background and `on_release_error` receives
    /// `network_timeout`.
    std::optional<milliseconds> dispose_timeout;

    /// How much faster the store's clock may run than this host's, as a fraction. A lease ends this
    /// part of its TTL, plus 2 ms, before the store lets the lock expire (at most half the TTL).
    /// Values from 0.01 to 0.5; see docs/promises.md for what each store needs.
    double clock_drift = 0.01;

    /// Receives warnings, such as a fence counter near its maximum. Default: a line on the standard
    /// error.
    warning_handler on_warning;
};

}  // namespace syncguard
