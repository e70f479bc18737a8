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

/// One checked operation on its way to the engine and back. It stays where it was made: the request
/// refers to the key.
struct call {
    call() = default;
    call(const call&) = delete;
    call& operator=(const call&) = delete;
    ~call() = default;

    std::string key;
    std::optional<request> what;
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

/// Tells the operator if `granted` is beyond `fence::warn_counter`. Names the key by its hash.
void warn_if_fence_runs_out(const fence& granted, std::string_view key,
                            const warning_handler& on_warning) noexcept {
    static const fence warn_after = fence::from_counter(fence::warn_counter);
    if (granted <= warn_after) return;
    try {
        warn_later(on_warning, "the fence counter of the key with hash " + hash_key(key) +
                                   " is at " + granted.to_string() + "; acquisitions fail beyond " +
                                   fence::from_counter(fence::max_counter).to_string() +
                                   ". Plan to move to a new key or key prefix");
    } catch (...) {  // no memory for the text
    }
}

// Preparation: check everything, then say what to ask the engine.

void prepare_acquire(call& made, std::string_view key, const acquire_options& options,
                     const backend_options& defaults, std::stop_token stop,
                     std::chrono::steady_clock::time_point linger_until = {}) {
    made.key = normalize_and_validate_key(key);
    made.ttl = checked_ttl(options.ttl);
    made.limits = checked_limits(options.timeout, defaults, std::move(stop));
    made.what = acquire_request{made.key, lock_id::generate(), made.ttl, linger_until};
    // The lease must not outlive the lock, so its time starts before the store hears of it.
    made.sent_at = lease_clock::now();
}

void prepare_release(call& made, std::string_view id, std::string_view key, call_limits limits) {
    made.key = key;
    made.what = release_request{lock_id::parse(id), made.key};
    made.limits = std::move(limits);
}

void prepare_extend(call& made, std::string_view id, std::string_view key, milliseconds ttl,
                    call_limits limits) {
    made.key = key;
    made.what = extend_request{lock_id::parse(id), ttl, made.key};
    made.limits = std::move(limits);
}

template <class KeyRequest>
void prepare_key(call& made, std::string_view key, const call_options& options,
                 const backend_options& defaults, std::stop_token stop) {
    made.key = normalize_and_validate_key(key);
    made.what = KeyRequest{made.key};
    made.limits = checked_limits(options.timeout, defaults, std::move(stop));
}

void prepare_id_lookup(call& made, std::string_view id, const call_options& options,
                       const backend_options& defaults, std::stop_token stop) {
    made.what = id_lookup_request{lock_id::parse(id)};
    made.limits = checked_limits(options.timeout, defaults, std::move(stop));
}

// Conclusion: what the engine's answer means to the caller.

release_result conclude_release(const outcome& answer) {
    return {.ok = answer.ok};
}

extend_result conclude_extend(const outcome& answer) {
    return {.ok = answer.ok, .expires_at = answer.expires_at};
}

error_context context_of(const call& made) {
    error_context context{.key = made.key, .lock_id = {}};
    std::visit(
        [&](const auto& what) {
            if constexpr (requires { what.id; }) context.lock_id = what.id.to_string();
        },
        *made.what);
    return context;
}

/// Engines do not know what they were asked about as well as the caller does: adds key and lock id.
[[noreturn]] void rethrow_with_context(const call& made) {
    try {
        throw;
    } catch (const lock_error& failure) {
        throw lock_error(failure.code(), failure.what(), context_of(made), failure.cause());
    } catch (const std::exception& failure) {
        throw lock_error(error_code::internal, failure.what(), context_of(made),
                         std::current_exception());
    }
}

std::exception_ptr with_context(const call& made, std::exception_ptr failure) {
    try {
        try {
            std::rethrow_exception(std::move(failure));
        } catch (...) {
            rethrow_with_context(made);
        }
    } catch (...) {
        return std::current_exception();
    }
}

}  // namespace

backend_core::backend_core(std::shared_ptr<engine> store, backend_options options,
                           bool needs_fences)
    : store_(std::move(store)),
      options_(std::move(options)),
      line_(std::make_unique<waiting_line>()),
      needs_fences_(needs_fences),
      process_(fork_generation()) {
    if (!store_) throw lock_error(error_code::invalid_argument, "a backend needs an engine");
    if (needs_fences_ && !store_->capabilities().supports_fencing) {
        throw lock_error(error_code::invalid_argument,
                         "the engine '" + std::string(store_->capabilities().backend) +
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
        store_.reset();
        return;
    }
    // Closing what is shared with the parent process would disturb it: the copy stays as it is.
    (void)line_.release();
    (void)new std::shared_ptr<engine>(std::move(store_));
}

backend_core::lease_pointer backend_core::conclude_acquire(call& made, const outcome& answer,
                                                           disposal how_to_dispose) const {
    if (!answer.ok) return nullptr;
    const auto& asked = std::get<acquire_request>(*made.what);
    const auto began = answer.attempt_began.value_or(made.sent_at);
    lease_pointer granted;
    try {
        check_grant(answer);
        warn_if_fence_runs_out(answer.fence, made.key, options_.on_warning);
        granted = std::make_shared<lease_core>(grant{.backend = shared_from_this(),
                                                     .key = made.key,
                                                     .id = asked.id,
                                                     .fence = answer.fence,
                                                     .expires_at = answer.expires_at,
                                                     .ttl = made.ttl,
                                                     .sent_at = began},
                                               how_to_dispose);
    } catch (...) {
        // No lease will ever own this grant: the key must not stay locked.
        release_in_background(asked.id, made.key);
        throw;
    }
    if (granted->valid()) return granted;
    // The caller has not begun to work, and must not: another client may hold the lock by now.
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
    store_->start(release_request{id, stable_key}, {.deadline = deadline, .stop = {}},
                  [pending = std::make_shared<pending_release>(), self = shared_from_this(),
                   owned_key = std::move(owned_key), id](std::exception_ptr failure, outcome) {
                      if (failure) self->report_later(std::move(failure), id, owned_key);
                  });
}

/// Calls the handler on a thread of its own: the calling thread may be inside any caller's call.
void backend_core::report_later(std::exception_ptr failure, const lock_id& id,
                                std::shared_ptr<const std::string> key) const noexcept {
    try {
        lease_keeper::of_this_process().handlers().post([handler = options_.on_release_error,
                                                         failure = std::move(failure), id,
                                                         key = std::move(key)] {
            report_release_error(
                handler, failure,
                {.key = *key, .lock_id = id.str(), .source = release_source::disposal});
        });
    } catch (...) {  // no memory to report with
    }
}

/// Engines of this library cannot fail here; those of others can.
void backend_core::check_grant(const outcome& answer) const {
    if (!needs_fences_) return;
    static const fence greatest = fence::from_counter(fence::max_counter);
    if (answer.fence > fence() && answer.fence <= greatest) return;
    throw lock_error(error_code::internal, "the engine granted the lock with the fence " +
                                               answer.fence.to_string() +
                                               ", which is out of range; the lock is released");
}

/// In a child process that ran no fork handlers the engine's connections, threads and mutexes are
/// still those of the parent.
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

outcome backend_core::perform(const call& made) const {
    const deferred_cancellation whole_call;
    try {
        check_process();
        return store_->perform(*made.what, made.limits);
    } catch (...) {
        rethrow_with_context(made);
    }
}

backend_core::attempt backend_core::acquire(
    std::string_view key, const acquire_options& options, std::stop_token stop,
    std::chrono::steady_clock::time_point linger_until) const {
    call made;
    prepare_acquire(made, key, options, options_, std::move(stop), linger_until);
    const outcome answer = perform(made);
    return {.lease = conclude_acquire(made, answer, disposal::blocking),
            .locked_for = answer.locked_for};
}

release_result backend_core::release(std::string_view id, std::string_view key,
                                     const call_options& options, std::stop_token stop) const {
    return release(id, key, check(options, std::move(stop)));
}

release_result backend_core::release(std::string_view id, std::string_view key,
                                     call_limits limits) const {
    call made;
    prepare_release(made, id, key, std::move(limits));
    line_->released(key, std::chrono::steady_clock::now());
    return conclude_release(perform(made));
}

extend_result backend_core::extend(std::string_view id, std::string_view key,
                                   const extend_options& options, std::stop_token stop) const {
    return extend(id, key, options.ttl, check(options, std::move(stop)));
}

extend_result backend_core::extend(std::string_view id, std::string_view key, milliseconds ttl,
                                   call_limits limits) const {
    call made;
    prepare_extend(made, id, key, ttl, std::move(limits));
    return conclude_extend(perform(made));
}

bool backend_core::is_locked(std::string_view key, const call_options& options,
                             std::stop_token stop) const {
    call made;
    prepare_key<is_locked_request>(made, key, options, options_, std::move(stop));
    return perform(made).ok;
}

std::optional<lock_record> backend_core::lookup_key(std::string_view key,
                                                    const call_options& options,
                                                    std::stop_token stop) const {
    call made;
    prepare_key<key_lookup_request>(made, key, options, options_, std::move(stop));
    return perform(made).record;
}

std::optional<lock_record> backend_core::lookup_id(std::string_view id, const call_options& options,
                                                   std::stop_token stop) const {
    call made;
    prepare_id_lookup(made, id, options, options_, std::move(stop));
    return perform(made).record;
}

template <class Result, class Prepare, class Conclude>
void backend_core::start(Prepare prepare, Conclude conclude, receiver<Result> done) const noexcept {
    const deferred_cancellation whole_call;
    completion finish;
    std::shared_ptr<call> made;
    try {
        check_process();
        made = std::make_shared<call>();
        prepare(*made);
        // `made` is destroyed after `done`, which may be the last owner of the engine. So the
        // normal end of the program also waits for the end of the engine.
        finish = [made, conclude, done, self = shared_from_this()](std::exception_ptr failure,
                                                                   outcome answer) mutable {
            Result result{};
            try {
                if (!failure) result = conclude(*made, std::move(answer));
            } catch (...) {
                failure = std::current_exception();
            }
            if (failure) failure = with_context(*made, std::move(failure));
            // Let go before telling: whoever is told may be about to end the process, and must not
            // leave the end of the store to this thread.
            self.reset();
            done(std::move(failure), std::move(result));
        };
    } catch (...) {
        done(std::current_exception(), Result{});
        return;
    }
    store_->start(*made->what, made->limits, std::move(finish));
}

void backend_core::start_acquire(std::string_view key, const acquire_options& options,
                                 std::stop_token stop,
                                 receiver<lease_pointer> done) const noexcept {
    start<lease_pointer>(
        [&](call& made) { prepare_acquire(made, key, options, options_, std::move(stop)); },
        [this](call& made, const outcome& answer) {
            return conclude_acquire(made, answer, disposal::background);
        },
        std::move(done));
}

void backend_core::start_release(std::string_view id, std::string_view key,
                                 const call_options& options, std::stop_token stop,
                                 receiver<release_result> done) const noexcept {
    call_limits limits;
    try {
        limits = check(options, std::move(stop));
    } catch (...) {
        done(std::current_exception(), {});
        return;
    }
    start_release(id, key, std::move(limits), std::move(done));
}

void backend_core::start_release(std::string_view id, std::string_view key, call_limits limits,
                                 receiver<release_result> done) const noexcept {
    start<release_result>(
        [&](call& made) {
            prepare_release(made, id, key, std::move(limits));
            made.awaited_at_exit.emplace();
            line_->released(key, std::chrono::steady_clock::now());
        },
        [](call&, const outcome& answer) { return conclude_release(answer); }, std::move(done));
}

void backend_core::start_extend(std::string_view id, std::string_view key,
                                const extend_options& options, std::stop_token stop,
                                receiver<extend_result> done) const noexcept {
    call_limits limits;
    try {
        limits = check(options, std::move(stop));
    } catch (...) {
        done(std::current_exception(), {});
        return;
    }
    start_extend(id, key, options.ttl, std::move(limits), std::move(done));
}

void backend_core::start_extend(std::string_view id, std::string_view key, milliseconds ttl,
                                call_limits limits, receiver<extend_result> done) const noexcept {
    start<extend_result>([&](call& made) { prepare_extend(made, id, key, ttl, std::move(limits)); },
                         [](call&, const outcome& answer) { return conclude_extend(answer); },
                         std::move(done));
}

void backend_core::start_is_locked(std::string_view key, const call_options& options,
                                   std::stop_token stop, receiver<bool> done) const noexcept {
    start<bool>(
        [&](call& made) {
            prepare_key<is_locked_request>(made, key, options, options_, std::move(stop));
        },
        [](call&, const outcome& answer) { return answer.ok; }, std::move(done));
}

void backend_core::start_lookup_key(std::string_view key, const call_options& options,
                                    std::stop_token stop,
                                    receiver<std::optional<lock_record>> done) const noexcept {
    start<std::optional<lock_record>>(
        [&](call& made) {
            prepare_key<key_lookup_request>(made, key, options, options_, std::move(stop));
        },
        [](call&, outcome answer) { return std::move(answer.record); }, std::move(done));
}

void backend_core::start_lookup_id(std::string_view id, const call_options& options,
                                   std::stop_token stop,
                                   receiver<std::optional<lock_record>> done) const noexcept {
    start<std::optional<lock_record>>(
        [&](call& made) { prepare_id_lookup(made, id, options, options_, std::move(stop)); },
        [](call&, outcome answer) { return std::move(answer.record); }, std::move(done));
}

}  // namespace syncguard::detail
