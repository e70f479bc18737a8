/// Opt-in telemetry: a decorator that reports every operation. Without it, nothing is computed.
#pragma once

#include <syncguard/backend.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace syncguard {

enum class event_type { acquire, release, extend, is_locked, lookup };

/// "acquire", "release", "extend", "isLocked" or "lookup".
[[nodiscard]] std::string_view to_string(event_type type) noexcept;

/// One completed operation.
struct lock_event {
    event_type type{};
    /// Whether the operation succeeded; for `is_locked`: whether the key is locked; for `lookup`:
    /// whether there is a live lock. After a system failure: false, without a reason.
    bool ok = false;
    std::optional<std::string> key_hash;  ///< If the operation has a key.
    /// If the operation has a lock id (an acquisition: only if it succeeded) and
    /// `include_lock_id_hash` permits it.
    std::optional<std::string> lock_id_hash;
    std::optional<failure_reason> reason;
    std::optional<std::string> key;      ///< Raw. Only if `include_raw` permits it.
    std::optional<std::string> lock_id;  ///< Raw. Only if `include_raw` permits it.
};

struct telemetry_options {
    /// Called for every event, one at a time, on a thread of its own: it may be slow and may throw
    /// without any effect on operations. Required.
    std::function<void(const lock_event&)> on_event;

    /// Whether events carry the raw key and lock id: a constant, or a predicate that receives the
    /// sanitised event. A predicate that throws means no.
    std::variant<bool, std::function<bool(const lock_event&)>> include_raw = false;

    /// Whether events carry `lock_id_hash`. Without it, events of one lock can still be related by
    /// `key_hash`. The hash of a lock id reveals most of the bits of the id; see SECURITY.md.
    bool include_lock_id_hash = true;

    /// The maximum number of events that wait for `on_event`. Further events are dropped, and
    /// counted.
    std::size_t queue_capacity = 4096;
};

namespace detail {

class telemetry_engine;

/// Access to the counters and the queue of a telemetry engine; shared by all copies of a backend.
class telemetry_monitor {
  public:
    explicit telemetry_monitor(std::shared_ptr<telemetry_engine> engine);
    [[nodiscard]] std::uint64_t dropped_events() const noexcept;
    [[nodiscard]] bool flush(milliseconds timeout) const;
    [[nodiscard]] std::shared_ptr<engine> as_engine() const;

  private:
    std::shared_ptr<telemetry_engine> engine_;
};

[[nodiscard]] telemetry_monitor observe(std::shared_ptr<engine> inner, telemetry_options options,
                                        warning_handler on_warning);

}  // namespace detail

/// A backend with telemetry. Usable like the backend without it.
template <capability_set Capabilities>
class observed_backend : public basic_backend<Capabilities> {
  public:
    observed_backend(detail::telemetry_monitor monitor, backend_options options)
        : basic_backend<Capabilities>(monitor.as_engine(), std::move(options)),
          monitor_(std::move(monitor)) {}

    /// Events that were lost because `on_event` was too slow.
    [[nodiscard]] std::uint64_t dropped_events() const noexcept {
        return monitor_.dropped_events();
    }

    /// Waits until all previous events were delivered; false if `timeout` passed first.
    bool flush(milliseconds timeout) const { return monitor_.flush(timeout); }

  private:
    detail::telemetry_monitor monitor_;
};

/// Wraps a backend: same store, same locks, and an event for each operation. Calls that are refused
/// for their arguments do not reach the store and cause no event. Throws `lock_error`
/// (invalid_argument) if `on_event` is empty or `queue_capacity` is zero.
///
/// When the last copy of the wrapped backend is destroyed, queued events are delivered first, for
/// up to a second. Then the remaining events are dropped, and `backend_options::on_warning`
/// receives their number, which `dropped_events` does not include; a call of `on_event` that has
/// not returned by then goes on after the destruction.
template <lock_backend B>
[[nodiscard]] observed_backend<typename B::capabilities_type> with_telemetry(
    const B& backend, telemetry_options options) {
    const auto& core = detail::access::core(backend);
    return {detail::observe(core.backing_engine(), std::move(options), core.options().on_warning),
            core.options()};
}

}  // namespace syncguard
