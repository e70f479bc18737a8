/// The interface between the API and the engines, one for each kind of store. To add a store,
/// derive from `engine`; programs that only use locks do not need this header.
#pragma once

#include <syncguard/capabilities.hpp>
#include <syncguard/fence.hpp>
#include <syncguard/lock_id.hpp>
#include <syncguard/result.hpp>
#include <syncguard/time.hpp>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>

namespace syncguard {

// Requests. Keys are normalised and valid, ids are well formed, TTLs are in range: the API checks
// them before it calls an engine.

struct acquire_request {
    std::string_view key;
    lock_id id;
    milliseconds ttl;
    /// If the key is locked and the engine supports waiting, the engine tries again after each
    /// release until this time, and then answers `locked`. It answers earlier if it cannot wait for
    /// releases. The default: it answers at once.
    std::chrono::steady_clock::time_point wait_until{};
};
struct release_request {
    lock_id id;
    /// The key of the lock if the caller knows it, else empty. It may save a search in the store.
    /// Only the id decides about ownership.
    std::string_view key{};
};
struct extend_request {
    lock_id id;
    milliseconds ttl;
    std::string_view key{};  ///< As for a release.
};
struct is_locked_request {
    std::string_view key;
};
struct key_lookup_request {
    std::string_view key;
};
struct id_lookup_request {
    lock_id id;
};

using request = std::variant<acquire_request, release_request, extend_request, is_locked_request,
                             key_lookup_request, id_lookup_request>;

/// A live lock as it is stored.
struct lock_record {
    std::string key;
    lock_id id;
    unix_time expires_at;
    unix_time acquired_at;
    syncguard::fence fence;
};

/// The answer of an engine. Only the members that belong to the request are meaningful.
struct outcome {
    bool ok = false;  ///< Succeeded; for `is_locked`: locked; for a lookup: found.
    std::optional<failure_reason> reason;  ///< Of a failure, if known at no cost.
    unix_time expires_at{};                ///< After `acquire` and `extend`, by the store's clock.
    syncguard::fence fence;                ///< After `acquire`.
    std::optional<lock_record> record;     ///< After a lookup.
    /// After `acquire`, if the engine may have made several attempts: when the granted one began.
    std::optional<lease_clock::time_point> attempt_started_at;
    /// After an acquisition that found the key locked: the key is free after this time if no client
    /// changes the lock. Set if it is known at no cost.
    std::optional<milliseconds> free_within;

    [[nodiscard]] static outcome granted(unix_time expires_at, syncguard::fence fence) {
        outcome answer{.ok = true, .reason = {}, .expires_at = expires_at, .fence = fence};
        return answer;
    }
    [[nodiscard]] static outcome done() { return {.ok = true}; }
    [[nodiscard]] static outcome extended(unix_time expires_at) {
        return {.ok = true, .reason = {}, .expires_at = expires_at};
    }
    [[nodiscard]] static outcome failed(failure_reason reason) {
        return {.ok = false, .reason = reason};
    }
    [[nodiscard]] static outcome locked(std::optional<milliseconds> free_within = {}) {
        outcome answer = failed(failure_reason::locked);
        answer.free_within = free_within;
        return answer;
    }
    [[nodiscard]] static outcome boolean(bool answer) { return {.ok = answer}; }
    [[nodiscard]] static outcome found(lock_record record) {
        outcome answer{.ok = true};
        answer.record = std::move(record);
        return answer;
    }
    [[nodiscard]] static outcome nothing_found() { return {}; }
};

/// The bounds of one call.
struct call_limits {
    std::chrono::steady_clock::time_point deadline;
    std::stop_token stop;
};

/// Receives the answer of an asynchronous call: an exception, or an outcome.
using completion = std::function<void(std::exception_ptr, outcome)>;

/// The access to one store. Each operation makes one attempt, except an acquisition with
/// `wait_until`, and is atomic in the store.
///
/// - Thread safety: all members may be called from any number of threads at once.
/// - Time: a call returns, or completes, by its deadline (`network_timeout`) or soon after a stop
///   request (`aborted`).
/// - Failures: after a failed acquisition the key does not stay locked. If the outcome is unknown,
///   the engine undoes the acquisition, or releases the lock by its id in the background. If that
///   fails too, the lock ends with its TTL.
class engine {
  public:
    engine() = default;
    engine(const engine&) = delete;
    engine& operator=(const engine&) = delete;
    virtual ~engine() = default;

    [[nodiscard]] virtual backend_capabilities capabilities() const noexcept = 0;

    /// Whether an acquisition may wait for the release of a locked key. Such an acquisition costs
    /// more than one that does not wait: the engine begins to watch the key.
    [[nodiscard]] virtual bool supports_waiting() const noexcept { return false; }

    /// True if an extension that succeeds is always executed after all extensions of the lock that
    /// failed before its call began. A lease then relies only on the later extension. False, the
    /// default: until the lease ends, it relies only on the shorter of the two TTLs.
    [[nodiscard]] virtual bool executes_extensions_in_order() const noexcept { return false; }

    /// While the returned object exists, the engine performs its I/O only on its own threads.
    /// Otherwise a caller's thread may perform it for all callers, and a signal handler on that
    /// thread can delay asynchronous calls. Each renewed lease holds one such object; the engine
    /// outlives them. Null, the default: the engine never performs the I/O of one caller on the
    /// thread of another. Throws `std::system_error` if no thread can be started.
    [[nodiscard]] virtual std::shared_ptr<const void> reserve_io_thread() { return nullptr; }

    /// Blocking form. Throws `lock_error`.
    [[nodiscard]] virtual outcome execute(const request& req, const call_limits& limits) = 0;

    /// Asynchronous form: returns at once; `handler` is called exactly once, from any thread,
    /// perhaps before `async_execute` returns, also to deliver failures. The objects that the
    /// request's views refer to must live until then. `handler` does not throw.
    virtual void async_execute(const request& req, const call_limits& limits,
                               completion handler) noexcept = 0;
};

}  // namespace syncguard
