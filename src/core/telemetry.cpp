#include "core/warning.hpp"
#include "util/background_thread.hpp"

#include <syncguard/key.hpp>
#include <syncguard/telemetry.hpp>

#include <atomic>
#include <string>
#include <utility>

namespace syncguard {

std::string_view to_string(event_type type) noexcept {
    switch (type) {
        case event_type::acquire:
            return "acquire";
        case event_type::release:
            return "release";
        case event_type::extend:
            return "extend";
        case event_type::is_locked:
            return "isLocked";
        case event_type::lookup:
            return "lookup";
    }
    return "";
}

namespace detail {

namespace {

/// The data of an operation from which the telemetry thread makes the event. Hashing and user code
/// run on that thread, and do not delay operations.
struct observation {
    event_type type;
    std::optional<std::string> key;
    std::optional<lock_id> id;
    bool ok = false;
    std::optional<failure_reason> reason;
};

observation describe(const acquire_request& req) {
    return {event_type::acquire, std::string(req.key), req.id};
}
observation describe(const release_request& req) {
    return {event_type::release, std::nullopt, req.id};
}
observation describe(const extend_request& req) {
    return {event_type::extend, std::nullopt, req.id};
}
observation describe(const is_locked_request& req) {
    return {event_type::is_locked, std::string(req.key), std::nullopt};
}
observation describe(const key_lookup_request& req) {
    return {event_type::lookup, std::string(req.key), std::nullopt};
}
observation describe(const id_lookup_request& req) {
    return {event_type::lookup, std::nullopt, req.id};
}

observation describe(const request& req) {
    return std::visit([](const auto& typed) { return describe(typed); }, req);
}

/// How long the destructor of an engine waits for `on_event`.
constexpr milliseconds shutdown_grace{1000};

/// Makes events and calls `on_event`, on the telemetry thread. Outlives the engine while events are
/// queued.
class event_sink {
  public:
    explicit event_sink(telemetry_options options) : options_(std::move(options)) {}

    void deliver(const observation& seen) const noexcept {
        try {
            options_.on_event(make_event(seen));
        } catch (...) {  // user code must not affect operations
        }
    }

  private:
    [[nodiscard]] lock_event make_event(const observation& seen) const {
        lock_event event{.type = seen.type, .ok = seen.ok, .reason = seen.reason};
        // Omit the lock id of an acquisition that was not granted: no lock has this id.
        const bool has_id = seen.id && (seen.type != event_type::acquire || seen.ok);
        if (seen.key) event.key_hash = hash_key(*seen.key);
        if (has_id && options_.include_lock_id_hash) event.lock_id_hash = hash_key(seen.id->str());
        if (raw_wanted(event)) {
            event.key = seen.key;
            if (has_id) event.lock_id = seen.id->to_string();
        }
        return event;
    }

    [[nodiscard]] bool raw_wanted(const lock_event& event) const noexcept {
        if (const bool* always = std::get_if<bool>(&options_.include_raw)) return *always;
        try {
            const auto& decide = std::get<1>(options_.include_raw);
            return decide && decide(event);
        } catch (...) {
            return false;
        }
    }

    telemetry_options options_;
};

}  // namespace

class telemetry_engine : public engine {
  public:
    telemetry_engine(std::shared_ptr<engine> inner, telemetry_options options,
                     warning_handler on_warning)
        : inner_(std::move(inner)),
          events_("syncguard-event", options.queue_capacity),
          sink_(std::make_shared<const event_sink>(std::move(options))),
          on_warning_(std::move(on_warning)) {}
    telemetry_engine(const telemetry_engine&) = delete;
    telemetry_engine& operator=(const telemetry_engine&) = delete;
    ~telemetry_engine() override {
        if (const auto dropped = events_.end_within(shutdown_grace); dropped > 0) warn_of(dropped);
    }

    [[nodiscard]] bool supports_waiting() const noexcept override {
        return inner_->supports_waiting();
    }
    [[nodiscard]] bool executes_extensions_in_order() const noexcept override {
        return inner_->executes_extensions_in_order();
    }
    [[nodiscard]] backend_capabilities capabilities() const noexcept override {
        return inner_->capabilities();
    }

    [[nodiscard]] std::shared_ptr<const void> reserve_io_thread() override {
        return inner_->reserve_io_thread();
    }

    [[nodiscard]] outcome execute(const request& req, const call_limits& limits) override {
        // Before the operation: if memory ran out after it, the answer would be lost.
        observation seen = describe(req);
        try {
            outcome answer = inner_->execute(req, limits);
            publish(std::move(seen), answer);
            return answer;
        } catch (...) {
            publish(std::move(seen), outcome{});
            throw;
        }
    }

    void async_execute(const request& req, const call_limits& limits,
                       completion handler) noexcept override {
        // This engine outlives the request: the completion owns the backend.
        completion publishing;
        try {
            publishing = [this, seen = describe(req), handler](std::exception_ptr failure,
                                                               outcome answer) mutable {
                publish(std::move(seen), answer);
                handler(std::move(failure), std::move(answer));
            };
        } catch (...) {
            handler(std::current_exception(), {});
            return;
        }
        inner_->async_execute(req, limits, std::move(publishing));
    }

    [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }
    [[nodiscard]] bool flush(milliseconds timeout) { return events_.flush(timeout); }

  private:
    void warn_of(std::size_t dropped) noexcept {
        try {
            warn_later(on_warning_,
                       std::to_string(dropped) +
                           " telemetry events were dropped at the end of their backend, because "
                           "on_event did not return in time");
        } catch (...) {  // not enough memory for the text
        }
    }

    void publish(observation seen, const outcome& answer) noexcept {
        seen.ok = answer.ok;
        seen.reason = answer.reason;
        try {
            if (events_.try_post([sink = sink_, seen = std::move(seen)] { sink->deliver(seen); })) {
                return;
            }
        } catch (...) {  // counted below, like a full queue
        }
        ++dropped_;
    }

    std::shared_ptr<engine> inner_;
    background_thread events_;
    std::shared_ptr<const event_sink> sink_;
    warning_handler on_warning_;
    std::atomic<std::uint64_t> dropped_{0};
};

telemetry_monitor::telemetry_monitor(std::shared_ptr<telemetry_engine> engine)
    : engine_(std::move(engine)) {}

std::uint64_t telemetry_monitor::dropped_events() const noexcept {
    return engine_->dropped();
}

bool telemetry_monitor::flush(milliseconds timeout) const {
    return engine_->flush(timeout);
}

std::shared_ptr<engine> telemetry_monitor::as_engine() const {
    return engine_;
}

telemetry_monitor observe(std::shared_ptr<engine> inner, telemetry_options options,
                          warning_handler on_warning) {
    if (!options.on_event) {
        throw lock_error(error_code::invalid_argument, "telemetry needs an on_event callback");
    }
    if (options.queue_capacity == 0) {
        throw lock_error(error_code::invalid_argument, "queue_capacity must be at least 1");
    }
    return telemetry_monitor(std::make_shared<telemetry_engine>(
        std::move(inner), std::move(options), std::move(on_warning)));
}

}  // namespace detail
}  // namespace syncguard
