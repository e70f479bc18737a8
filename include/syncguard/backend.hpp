/// `basic_backend`, `any_backend`: five operations on the locks of one store.
#pragma once

#include <syncguard/capabilities.hpp>
#include <syncguard/detail/access.hpp>
#include <syncguard/detail/backend_core.hpp>
#include <syncguard/engine.hpp>
#include <syncguard/lease.hpp>
#include <syncguard/lock_info.hpp>
#include <syncguard/options.hpp>
#include <syncguard/result.hpp>

#include <concepts>
#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>
#include <utility>

namespace syncguard {

/// A lookup by key: "is this resource locked?"
struct key_lookup {
    std::string_view key;
};

/// A lookup by lock id: "do I still hold it?"
struct ownership_lookup {
    std::string_view lock_id;
};

/// The locks of one store. `Capabilities` describes the store at compile time.
///
/// Each operation makes one attempt; for retries see `lock()`. Arguments are checked before any
/// I/O. Every operation throws `lock_error`: `invalid_argument` for bad arguments,
/// `network_timeout` when the deadline passes, `aborted` soon after `stop` is requested, and the
/// store's own failures. "Locked", "not held" and "not found" are results, not exceptions.
///
/// A backend is a handle: copies share one store and its connections. All members are const and may
/// be called from any number of threads at once; a moved-from backend can only be assigned to or
/// destroyed. Asynchronous forms are in async.hpp.
template <capability_set Capabilities>
class basic_backend {
  public:
    using capabilities_type = Capabilities;

    /// Makes a backend of any engine. Throws `lock_error` (`invalid_argument`) for options out of
    /// range, and for an engine without fences if `Capabilities` has them.
    explicit basic_backend(std::shared_ptr<engine> backing_engine, backend_options options = {})
        : core_(std::make_shared<detail::backend_core>(
              std::move(backing_engine), std::move(options), Capabilities::supports_fencing)) {}

    /// Type erasure of the engine: `any_backend locks = memory::backend();`
    template <class Other>
    requires(!std::same_as<Other, Capabilities> && std::same_as<Capabilities, any_capabilities> &&
             Other::supports_fencing)
        basic_backend(basic_backend<Other> other)  // NOLINT(google-explicit-constructor)
        : core_(std::move(other.core_)) {}

    /// Tries once to acquire the lock `key`.
    [[nodiscard]] acquire_result<Capabilities> acquire(std::string_view key,
                                                       const acquire_options& options = {},
                                                       std::stop_token stop = {}) const {
        return detail::access::result<Capabilities>(
            core_->acquire(key, options, std::move(stop)).lease);
    }

    /// Releases a lock by its id. Safe to repeat: at most one call releases the lock, and never the
    /// lock of another client.
    release_result release(std::string_view lock_id, const call_options& options = {},
                           std::stop_token stop = {}) const {
        return core_->release(lock_id, {}, options, std::move(stop));
    }

    /// Makes a lock end `options.ttl` from now. Never revives a lock that has ended.
    ///
    /// A lease of the lock is not notified of this call: with a TTL shorter than the remaining
    /// time, the lease would stay `valid()` after the end of its lock. If there is a lease, use
    /// `lease::extend`.
    extend_result extend(std::string_view lock_id, const extend_options& options = {},
                         std::stop_token stop = {}) const {
        return core_->extend(lock_id, {}, options, std::move(stop));
    }

    /// Whether the lock is held. Read-only, except for the option `cleanup_in_is_locked` of some
    /// engines.
    [[nodiscard]] bool is_locked(std::string_view key, const call_options& options = {},
                                 std::stop_token stop = {}) const {
        return core_->is_locked(key, options, std::move(stop));
    }

    /// The live lock of a key; nullopt if it is free or expired. For diagnostics; do not use it to
    /// guard a mutation: `release` and `extend` verify ownership themselves.
    [[nodiscard]] std::optional<lock_info<Capabilities>> lookup(key_lookup query,
                                                                const call_options& options = {},
                                                                std::stop_token stop = {}) const {
        return detail::access::sanitized<Capabilities>(
            core_->lookup_key(query.key, options, std::move(stop)));
    }

    /// The live lock with this id; nullopt if there is none.
    [[nodiscard]] std::optional<lock_info<Capabilities>> lookup(ownership_lookup query,
                                                                const call_options& options = {},
                                                                std::stop_token stop = {}) const {
        return detail::access::sanitized<Capabilities>(
            core_->lookup_id(query.lock_id, options, std::move(stop)));
    }

    [[nodiscard]] backend_capabilities capabilities() const noexcept {
        return core_->backing_engine()->capabilities();
    }

  private:
    template <capability_set>
    friend class basic_backend;
    friend struct detail::access;

    std::shared_ptr<detail::backend_core> core_;
};

/// A backend whose engine was chosen at run time. Every backend with fences converts to it.
using any_backend = basic_backend<any_capabilities>;

/// The requirements of generic code on a backend.
template <class B>
concept lock_backend = requires(const B& backend, std::string_view text, std::stop_token stop) {
    typename B::capabilities_type;
    requires std::derived_from<B, basic_backend<typename B::capabilities_type>>;
    {
        backend.acquire(text, acquire_options{}, stop)
        } -> std::same_as<acquire_result<typename B::capabilities_type>>;
    { backend.release(text, call_options{}, stop) } -> std::same_as<release_result>;
    { backend.extend(text, extend_options{}, stop) } -> std::same_as<extend_result>;
    { backend.is_locked(text, call_options{}, stop) } -> std::same_as<bool>;
    {
        backend.lookup(key_lookup{text}, call_options{}, stop)
        } -> std::same_as<std::optional<lock_info<typename B::capabilities_type>>>;
    {
        backend.lookup(ownership_lookup{text}, call_options{}, stop)
        } -> std::same_as<std::optional<lock_info<typename B::capabilities_type>>>;
    { backend.capabilities() } -> std::same_as<backend_capabilities>;
};

static_assert(lock_backend<any_backend>);

}  // namespace syncguard
