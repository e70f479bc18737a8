#include "core/lease/lease_monitor.hpp"
#include "core/lease/pending_release.hpp"
#include "core/lease/release_errors.hpp"
#include "core/ttl_limits.hpp"
#include "core/wait_queue.hpp"
#include "core/warning.hpp"
#include "util/bounded_wait.hpp"
#include "util/deferred_cancellation.hpp"
#include "util/fork_generation.hpp"
#include "util/fork_guard.hpp"

#include <syncguard/detail/backend_core.hpp>
#include <syncguard/key.hpp>

#include <chrono>
#include <string>
#include <utility>

namespace syncguard::detail {

/// One checked operation: the request, and what is needed to convert its answer. Neither copied nor
/// moved, because the request refers to the key.
struct prepared_call {
    prepared_call() = default;
    prepared_call(const prepared_call&) = delete;
    prepared_call& operator=(const prepared_call&) = delete;
    ~prepared_call() = default;

    std::string key;
    std::optional<request> req;
    std::optional<pending_release> awaited_at_exit;
    call_limits limits;
    milliseconds ttl{};
    lease_clock::time_point sent_at;
};

namespace {

call_limits checked_limits(milliseconds timeout, const backend_options& defaults,
                           std::stop_token stop) {
    if (timeout < milliseconds{0}) {
        throw lock_error(error_code::invalid_argument, "a timeout cannot be negative");
    }
    if (stop.stop_requested()) {
        throw lock_error(error_code::aborted, "the operation was cancelled before it began");
    }
    const milliseconds allowed = timeout == milliseconds{0} ? defaults.operation_timeout : timeout;
    return {.deadline = std::chrono::steady_clock::now() + bounded_wait(allowed),
            .stop = std::move(stop)};
}

/// Warns the operator if `granted` is beyond `fence::warn_counter`. Names the key by its hash.
void warn_if_fence_runs_out(const fence& granted, std::string_view key,
                            const warning_handler& on_warning) noexcept {
    static const fence warn_after = fence::from_counter(fence::warn_counter);
    if (granted <= warn_after) return;
    try {
        warn_later(on_warning, "the fence counter of the key with hash " + hash_key(key) +
                                   " is at " + granted.to_string() + "; acquisitions fail beyond " +
                                   fence::from_counter(fence::max_counter).to_string() +
                                   ". Plan to move to a new key or key prefix");
    } catch (...) {  // not enough memory for the text
    }
}

// Preparation: checks the arguments and makes the request.

void prepare_acquire(prepared_call& call, std::string_view key, const acquire_options& options,
                     const backend_options& defaults, std::stop_token stop,
                     std::chrono::steady_clock::time_point wait_until = {}) {
    call.key = normalize_and_validate_key(key);
    call.ttl = checked_ttl(options.ttl);
    call.limits = checked_limits(options.timeout, defaults, std::move(stop));
    call.req = acquire_request{call.key, lock_id::generate(), call.ttl, wait_until};
    // The lease must not outlive the lock, so its TTL counts from before the request is sent.
    call.sent_at = lease_clock::now();
}

void prepare_release(prepared_call& call, std::string_view id, std::string_view key,
                     call_limits limits) {
    call.key = key;
    call.req = release_request{lock_id::parse(id), call.key};
    call.limits = std::move(limits);
}

void prepare_extend(prepared_call& call, std::string_view id, std::string_view key,
                    milliseconds ttl, call_limits limits) {
    call.key = key;
    call.req = extend_request{lock_id::parse(id), ttl, call.key};
    call.limits = std::move(limits);
}

template <class KeyRequest>
void prepare_key(prepared_call& call, std::string_view key, const call_options& options,
                 const backend_options& defaults, std::stop_token stop) {
    call.key = normalize_and_validate_key(key);
    call.req = KeyRequest{call.key};
    call.limits = checked_limits(options.timeout, defaults, std::move(stop));
}

void prepare_id_lookup(prepared_call& call, std::string_view id, const call_options& options,
                       const backend_options& defaults, std::stop_token stop) {
    call.req = id_lookup_request{lock_id::parse(id)};
    call.limits = checked_limits(options.timeout, defaults, std::move(stop));
}

// Conversion: makes the result of an engine's answer.

release_result to_release_result(const outcome& answer) {
    return {.ok = answer.ok};
}

extend_result to_extend_result(const outcome& answer) {
    return {.ok = answer.ok, .expires_at = answer.expires_at};
}

error_context context_of(const prepared_call& call) {
    error_context context{.key = call.key, .lock_id = {}};
    std::visit(
        [&](const auto& req) {
            if constexpr (requires { req.id; }) context.lock_id = req.id.to_string();
        },
        *call.req);
    return context;
}

/// Adds the key and the lock id, which engines do not always know.
[[noreturn]] void rethrow_with_context(const prepared_call& call) {
    try {
        throw;
    } catch (const lock_error& failure) {
        throw lock_error(failure.code(), failure.what(), context_of(call), failure.cause());
    } catch (const std::exception& failure) {
        throw lock_error(error_code::internal, failure.what(), context_of(call),
                         std::current_exception());
    }
}

std::exception_ptr with_context(const prepared_call& call, std::exception_ptr failure) {
    try {
        try {
            std::rethrow_exception(std::move(failure));
        } catch (...) {
            rethrow_with_context(call);
        }
    } catch (...) {
        return std::current_exception();
    }
}

}  // namespace

backend_core::backend_core(std::shared_ptr<engine> backing_engine, backend_options options,
                           bool needs_fences)
    : backing_engine_(std::move(backing_engine)),
      options_(std::move(options)),
      waiters_(std::make_unique<wait_queue>()),
      needs_fences_(needs_fences),
      process_(fork_generation()) {
    if (!backing_engine_) {
        throw lock_error(error_code::invalid_argument, "a backend needs an engine");
    }
    if (needs_fences_ && !backing_engine_->capabilities().supports_fencing) {
        throw lock_error(error_code::invalid_argument,
                         "the engine '" + std::string(backing_engine_->capabilities().backend) +
                             "' has no fences; use a basic_backend whose capabilities say so");
    }
    if (!(options_.clock_drift >= 0.01 && options_.clock_drift <= 0.5)) {
        throw lock_error(error_code::invalid_argument, "clock_drift must be from 0.01 to 0.5");
    }
    if (options_.operation_timeout <= milliseconds{0}) {
        throw lock_error(error_code::invalid_argument, "operation_timeout must be positive");
    }
    if (options_.dispose_timeout && *options_.dispose_timeout <= milliseconds{0}) {
        throw lock_error(error_code::invalid_argument, "dispose_timeout must be positive");
    }
}

backend_core::~backend_core() {
    if (fork_guard::covers(process_)) {
        const deferred_cancellation whole_end;
        backing_engine_.reset();
        return;
    }
    // The engine is never destroyed in this child process: closing its connections and files would
    // disturb the parent, which shares them.
    (void)waiters_.release();
    (void)new std::shared_ptr<engine>(std::move(backing_engine_));
}

backend_core::lease_pointer backend_core::to_acquire_result(prepared_call& call,
                                                            const outcome& answer,
                                                            disposal mode) const {
    if (!answer.ok) return nullptr;
    const auto& req = std::get<acquire_request>(*call.req);
    const auto began = answer.attempt_started_at.value_or(call.sent_at);
    lease_pointer granted;
    try {
        check_grant(answer);
        warn_if_fence_runs_out(answer.fence, call.key, options_.on_warning);
        granted = std::make_shared<lease_core>(grant{.backend = shared_from_this(),
                                                     .key = call.key,
                                                     .id = req.id,
                                                     .fence = answer.fence,
                                                     .expires_at = answer.expires_at,
                                                     .ttl = call.ttl,
                                                     .sent_at = began},
                                               mode);
    } catch (...) {
        // No lease owns this grant, so release the lock here.
        release_in_background(req.id, call.key);
        throw;
    }
    if (granted->valid()) return granted;
    // The deadline has passed before the caller began its work: another client may hold the lock by
    // now.
    granted->dispose_without_waiting();
    throw grant_expired(error_code::network_timeout,
                        "the lock was granted, but the answer came when its time was over; it is "
                        "released. Use a longer TTL, or look at what delays the store's answers",
                        {.key = granted->key(), .lock_id = granted->id().to_string()});
}

void backend_core::release_in_background(const lock_id& id, std::string_view key) const {
    const deferred_cancellation whole_call;
    auto owned_key = std::make_shared<const std::string>(key);
    const std::string_view stable_key = *owned_key;
    const auto deadline =
        std::chrono::steady_clock::now() + bounded_wait(options_.operation_timeout);
    backing_engine_->async_execute(
        release_request{id, stable_key}, {.deadline = deadline, .stop = {}},
        [pending = std::make_shared<pending_release>(), self = shared_from_this(),
         owned_key = std::move(owned_key), id](std::exception_ptr failure, outcome) {
            if (failure) self->report_later(std::move(failure), id, owned_key);
        });
}

/// Calls the handler on a handler thread: the calling thread may be inside any caller's call.
void backend_core::report_later(std::exception_ptr failure, const lock_id& id,
                                std::shared_ptr<const std::string> key) const noexcept {
    try {
        lease_monitor::instance().handlers().post([handler = options_.on_release_error,
                                                   failure = std::move(failure), id,
                                                   key = std::move(key)] {
            report_release_error(
                handler, failure,
                {.key = *key, .lock_id = id.str(), .source = release_source::disposal});
        });
    } catch (...) {  // not enough memory for the report
    }
}

/// Engines of this library always pass this check; engines of other authors may not.
void backend_core::check_grant(const outcome& answer) const {
    if (!needs_fences_) return;
    static const fence greatest = fence::from_counter(fence::max_counter);
    if (answer.fence > fence() && answer.fence <= greatest) return;
    throw lock_error(error_code::internal, "the engine granted the lock with the fence " +
                                               answer.fence.to_string() +
                                               ", which is out of range; the lock is released");
}

/// In a child process that ran no fork handlers the engine still has the connections, threads and
/// mutexes of the parent.
void backend_core::check_process() const {
    if (fork_guard::covers(process_)) return;
    throw lock_error(error_code::internal,
                     "this process was created from the backend's by a system call that runs no "
                     "fork handlers; create a new backend in it");
}

call_limits backend_core::check(const call_options& options, std::stop_token stop) const {
    return checked_limits(options.timeout, options_, std::move(stop));
}

call_limits backend_core::check(const extend_options& options, std::stop_token stop) const {
    (void)checked_ttl(options.ttl);
    return checked_limits(options.timeout, options_, std::move(stop));
}

outcome backend_core::execute(const prepared_call& call) const {
    const deferred_cancellation whole_call;
    try {
        check_process();
        return backing_engine_->execute(*call.req, call.limits);
    } catch (...) {
        rethrow_with_context(call);
    }
}

backend_core::attempt backend_core::acquire(
    std::string_view key, const acquire_options& options, std::stop_token stop,
    std::chrono::steady_clock::time_point wait_until) const {
    prepared_call call;
    prepare_acquire(call, key, options, options_, std::move(stop), wait_until);
    const outcome answer = execute(call);
    return {.lease = to_acquire_result(call, answer, disposal::blocking),
            .free_within = answer.free_within};
}

release_result backend_core::release(std::string_view id, std::string_view key,
                                     const call_options& options, std::stop_token stop) const {
    return release(id, key, check(options, std::move(stop)));
}

release_result backend_core::release(std::string_view id, std::string_view key,
                                     call_limits limits) const {
    prepared_call call;
    prepare_release(call, id, key, std::move(limits));
    waiters_->released(key, std::chrono::steady_clock::now());
    return to_release_result(execute(call));
}

extend_result backend_core::extend(std::string_view id, std::string_view key,
                                   const extend_options& options, std::stop_token stop) const {
    return extend(id, key, options.ttl, check(options, std::move(stop)));
}

extend_result backend_core::extend(std::string_view id, std::string_view key, milliseconds ttl,
                                   call_limits limits) const {
    prepared_call call;
    prepare_extend(call, id, key, ttl, std::move(limits));
    return to_extend_result(execute(call));
}

bool backend_core::is_locked(std::string_view key, const call_options& options,
                             std::stop_token stop) const {
    prepared_call call;
    prepare_key<is_locked_request>(call, key, options, options_, std::move(stop));
    return execute(call).ok;
}

std::optional<lock_record> backend_core::lookup_key(std::string_view key,
                                                    const call_options& options,
                                                    std::stop_token stop) const {
    prepared_call call;
    prepare_key<key_lookup_request>(call, key, options, options_, std::move(stop));
    return execute(call).record;
}

std::optional<lock_record> backend_core::lookup_id(std::string_view id, const call_options& options,
                                                   std::stop_token stop) const {
    prepared_call call;
    prepare_id_lookup(call, id, options, options_, std::move(stop));
    return execute(call).record;
}

template <class Result, class Prepare, class Convert>
void backend_core::async_execute(Prepare prepare, Convert convert,
                                 receiver<Result> handler) const noexcept {
    const deferred_cancellation whole_call;
    completion finish;
    std::shared_ptr<prepared_call> call;
    try {
        check_process();
        call = std::make_shared<prepared_call>();
        prepare(*call);
        // `call` is destroyed after `handler`, which may be the last owner of the engine. So the
        // normal end of the program also waits for the end of the engine.
        finish = [call, convert, handler, self = shared_from_this()](std::exception_ptr failure,
                                                                     outcome answer) mutable {
            Result result{};
            try {
                if (!failure) result = convert(*call, std::move(answer));
            } catch (...) {
                failure = std::current_exception();
            }
            if (failure) failure = with_context(*call, std::move(failure));
            // Reset before the call: the handler may end the process, and this thread must not
            // destroy the engine during that.
            self.reset();
            handler(std::move(failure), std::move(result));
        };
    } catch (...) {
        handler(std::current_exception(), Result{});
        return;
    }
    backing_engine_->async_execute(*call->req, call->limits, std::move(finish));
}

void backend_core::start_acquire(std::string_view key, const acquire_options& options,
                                 std::stop_token stop,
                                 receiver<lease_pointer> handler) const noexcept {
    async_execute<lease_pointer>(
        [&](prepared_call& call) {
            prepare_acquire(call, key, options, options_, std::move(stop));
        },
        [this](prepared_call& call, const outcome& answer) {
            return to_acquire_result(call, answer, disposal::background);
        },
        std::move(handler));
}

void backend_core::start_release(std::string_view id, std::string_view key,
                                 const call_options& options, std::stop_token stop,
                                 receiver<release_result> handler) const noexcept {
    call_limits limits;
    try {
        limits = check(options, std::move(stop));
    } catch (...) {
        handler(std::current_exception(), {});
        return;
    }
    start_release(id, key, std::move(limits), std::move(handler));
}

void backend_core::start_release(std::string_view id, std::string_view key, call_limits limits,
                                 receiver<release_result> handler) const noexcept {
    async_execute<release_result>(
        [&](prepared_call& call) {
            prepare_release(call, id, key, std::move(limits));
            call.awaited_at_exit.emplace();
            waiters_->released(key, std::chrono::steady_clock::now());
        },
        [](prepared_call&, const outcome& answer) { return to_release_result(answer); },
        std::move(handler));
}

void backend_core::start_extend(std::string_view id, std::string_view key,
                                const extend_options& options, std::stop_token stop,
                                receiver<extend_result> handler) const noexcept {
    call_limits limits;
    try {
        limits = check(options, std::move(stop));
    } catch (...) {
        handler(std::current_exception(), {});
        return;
    }
    start_extend(id, key, options.ttl, std::move(limits), std::move(handler));
}

void backend_core::start_extend(std::string_view id, std::string_view key, milliseconds ttl,
                                call_limits limits,
                                receiver<extend_result> handler) const noexcept {
    async_execute<extend_result>(
        [&](prepared_call& call) { prepare_extend(call, id, key, ttl, std::move(limits)); },
        [](prepared_call&, const outcome& answer) { return to_extend_result(answer); },
        std::move(handler));
}

void backend_core::start_is_locked(std::string_view key, const call_options& options,
                                   std::stop_token stop, receiver<bool> handler) const noexcept {
    async_execute<bool>(
        [&](prepared_call& call) {
            prepare_key<is_locked_request>(call, key, options, options_, std::move(stop));
        },
        [](prepared_call&, const outcome& answer) { return answer.ok; }, std::move(handler));
}

void backend_core::start_lookup_key(std::string_view key, const call_options& options,
                                    std::stop_token stop,
                                    receiver<std::optional<lock_record>> handler) const noexcept {
    async_execute<std::optional<lock_record>>(
        [&](prepared_call& call) {
            prepare_key<key_lookup_request>(call, key, options, options_, std::move(stop));
        },
        [](prepared_call&, outcome answer) { return std::move(answer.record); },
        std::move(handler));
}

void backend_core::start_lookup_id(std::string_view id, const call_options& options,
                                   std::stop_token stop,
                                   receiver<std::optional<lock_record>> handler) const noexcept {
    async_execute<std::optional<lock_record>>(
        [&](prepared_call& call) {
            prepare_id_lookup(call, id, options, options_, std::move(stop));
        },
        [](prepared_call&, outcome answer) { return std::move(answer.record); },
        std::move(handler));
}

}  // namespace syncguard::detail
