#include "core/wait_queue.hpp"
#include "util/bounded_wait.hpp"
#include "util/deferred_cancellation.hpp"

#include <syncguard/detail/backend_core.hpp>
#include <syncguard/key.hpp>
#include <syncguard/lock.hpp>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>

namespace syncguard::detail {

namespace {

using std::chrono::steady_clock;

[[noreturn]] void abort_waiting(std::string_view key) {
    throw lock_error(error_code::aborted, "waiting for the lock was cancelled",
                     {.key = std::string(key), .lock_id = {}});
}

void refuse_negative(const lock_options& options) {
    if (options.timeout < milliseconds{0} || options.retry.retry_delay < milliseconds{0} ||
        options.retry.max_delay < milliseconds{0}) {
        throw lock_error(error_code::invalid_argument,
                         "a timeout, retry_delay or max_delay cannot be negative");
    }
}

/// For jitter only, so a cheap generator, seeded once for each thread, is sufficient.
double random_fraction() {
    thread_local std::minstd_rand generator(std::random_device{}());
    return std::uniform_real_distribution<double>(0.0, 1.0)(generator);
}

/// The pause after a failure of a store that sends notifications: after a failure it may not send
/// any.
constexpr milliseconds failure_pause{500};

/// The shortest pause before the next attempt, even if by the store's answer the key should be free
/// earlier.
constexpr milliseconds min_pause{20};

/// The longest time that is reserved for the last attempt before the timeout.
constexpr milliseconds max_last_attempt_time{500};

/// Whether a later attempt may succeed.
bool is_transient(error_code code) {
    return code == error_code::service_unavailable || code == error_code::network_timeout ||
           code == error_code::rate_limited;
}

/// Acquisition with retries for one caller. The time is divided into rounds, one for each attempt
/// that the retry policy grants; a round lasts as long as the policy's pause.
class acquire_loop {
  public:
    acquire_loop(const backend_core& backend, std::string_view key, const lock_options& options)
        : backend_(backend),
          key_(normalize_and_validate_key(key)),
          options_(options),
          started_at_(steady_clock::now()) {}

    std::shared_ptr<lease_core> wait() {
        if (options_.retry.max_retries > 0) {
            ticket_.emplace(backend_.waiters(), key_);
            // The first caller in the queue has found the key locked.
            is_waiting_ = !is_first();
        }
        for (unsigned round = 0;; ++round) {
            const bool is_last =
                round == options_.retry.max_retries && round != retry_policy::unlimited_retries;
            auto pause = milliseconds{0};
            if (!is_last) pause = retry_pause(options_.retry, round + 1, random_fraction(), left());
            const auto round_ends = steady_clock::now() + bounded_wait(pause);
            if (is_last || wait_until_may_ask(round_ends)) {
                if (auto lease = try_until(round_ends)) return lease;
            }
            if (options_.stop.stop_requested()) abort_waiting(key_);
            if (is_last || left() <= milliseconds{0}) throw_timeout();
        }
    }

  private:
    [[nodiscard]] milliseconds left() const {
        if (options_.timeout == milliseconds::max()) return milliseconds::max();
        return options_.timeout -
               std::chrono::floor<milliseconds>(steady_clock::now() - started_at_);
    }

    [[nodiscard]] bool is_first() { return !ticket_ || ticket_->wait_until_first(started_at_, {}); }

    /// While the first caller in the queue asks a store that sends notifications, the callers
    /// behind it rely on its answer, except that each caller asks at least once before its timeout.
    [[nodiscard]] bool wait_until_may_ask(steady_clock::time_point round_ends) {
        if (!ticket_ || !supports_waiting_) return true;
        if (attempts_ > 0) return ticket_->wait_until_may_ask(round_ends, options_.stop);
        return ticket_->wait_until_may_ask(std::min(round_ends, last_attempt_at_), options_.stop) ||
               steady_clock::now() >= last_attempt_at_;
    }

    /// Null if the lock was not acquired in this round.
    std::shared_ptr<lease_core> try_until(steady_clock::time_point round_ends) {
        do {
            if (options_.stop.stop_requested()) abort_waiting(key_);
            const bool first = is_first();
            // An attempt that waits costs more than one that does not, and most locks are free.
            const bool waits = first && is_waiting_ && supports_waiting_;
            auto next = round_ends;
            yield_to_others();
            if (ticket_) ticket_->set_asking(true);
            ++attempts_;
            try {
                auto result = attempt(waits ? round_ends : steady_clock::time_point{});
                if (result.lease) {
                    // After an early "locked" answer, this grant does not show that notifications
                    // work: the key was free by chance.
                    if (waits && !was_answered_early_) backend_.waiters().set_notified(true);
                    if (!is_notified()) {
                        backend_.waiters().granted(key_, result.lease->fence(), is_waiting_,
                                                   steady_clock::now());
                    }
                    return std::move(result.lease);
                }
                ++times_locked_;
                last_failure_ = nullptr;
                // If the store sends notifications, subscribe first, then try again.
                if (!std::exchange(is_waiting_, true) && supports_waiting_ && first) continue;
                const auto now = steady_clock::now();
                if (waits) {
                    was_answered_early_ = now < round_ends;
                    backend_.waiters().set_notified(!was_answered_early_);
                }
                if (first) {
                    next = std::min(next, now + poll_pause());
                    if (result.free_within) {
                        next = std::min(
                            next, now + bounded_wait(std::max(*result.free_within, min_pause)));
                    }
                }
            } catch (const grant_expired&) {
                last_failure_ = std::current_exception();
            } catch (const lock_error& failure) {
                const bool own_deadline =
                    failure.code() == error_code::network_timeout && left() <= milliseconds{0};
                // The store has too many clients, perhaps because all of them wait for this lock.
                const bool is_crowded =
                    failure.code() == error_code::rate_limited && options_.retry.max_retries > 0;
                if (!own_deadline && !is_crowded &&
                    !(is_waiting_ && is_transient(failure.code()))) {
                    throw;
                }
                last_failure_ = std::current_exception();
                if (first) {
                    const auto pause = supports_waiting_ ? failure_pause : poll_pause();
                    next = std::min(next, steady_clock::now() + pause);
                }
            }
            if (ticket_) ticket_->set_asking(false);
            if (steady_clock::now() < last_attempt_at_) next = std::min(next, last_attempt_at_);
            // After an attempt that waited, the round is over by now.
            if (first) {
                sleep_interruptibly_until(next);
            } else {
                (void)ticket_->wait_until_first(next, options_.stop);
            }
        } while (steady_clock::now() < round_ends);
        return nullptr;
    }

    /// The pause between two attempts of the first caller in the queue, if the store sends no
    /// notifications: the policy's first pause, but at least the longest time for which other
    /// clients leave the key to waiters.
    [[nodiscard]] milliseconds poll_pause() const {
        const retry_policy polling{
            .retry_delay = std::max(options_.retry.retry_delay, wait_queue::longest_yield),
            .backoff = backoff::fixed};
        return bounded_wait(retry_pause(polling, 1, random_fraction(), milliseconds::max()));
    }

    /// Whether the store sends notifications, by the experience of this and earlier calls: a call
    /// that is granted the lock at its first attempt does not find out.
    [[nodiscard]] bool is_notified() const {
        return supports_waiting_ && backend_.waiters().is_notified();
    }

    void yield_to_others() const {
        if (!ticket_ || is_notified()) return;
        const auto until = backend_.waiters().yields_until(key_);
        sleep_interruptibly_until(
            std::min(until, steady_clock::now() + bounded_wait(std::max(left(), {}) / 2)));
    }

    [[nodiscard]] backend_core::attempt attempt(steady_clock::time_point wait_until) const {
        acquire_options opts{.ttl = options_.ttl};
        // The first attempt is made in any case. If no time remains, it has the backend's timeout.
        if (const auto remaining = left(); remaining > milliseconds{0}) {
            const auto waits = std::chrono::ceil<milliseconds>(
                std::max(wait_until - steady_clock::now(), steady_clock::duration{0}));
            opts.timeout =
                std::min(waits + bounded_wait(backend_.options().operation_timeout), remaining);
        }
        return backend_.acquire(key_, opts, options_.stop, wait_until);
    }

    void sleep_interruptibly_until(steady_clock::time_point then) const {
        std::mutex mutex;
        std::condition_variable_any never;
        std::unique_lock guard(mutex);
        never.wait_until(guard, options_.stop, then, [] { return false; });
    }

    [[noreturn]] void throw_timeout() const {
        const error_context context{.key = key_, .lock_id = {}};
        if (last_failure_) {
            try {
                std::rethrow_exception(last_failure_);
            } catch (const lock_error& failure) {
                throw lock_error(error_code::acquisition_timeout, failure.what(), context,
                                 last_failure_);
            }
        }
        const auto waited =
            std::chrono::duration_cast<milliseconds>(steady_clock::now() - started_at_).count();
        throw lock_error(
            error_code::acquisition_timeout,
            "the lock was held by others at " + std::to_string(times_locked_) + " of " +
                std::to_string(attempts_) + (attempts_ == 1 ? " attempt" : " attempts") + " in " +
                std::to_string(waited) + " ms; wait longer, retry more often, or look who holds it",
            context);
    }

    const backend_core& backend_;
    const std::string key_;
    const lock_options& options_;
    const steady_clock::time_point started_at_;
    /// The time of the last attempt of a caller that would otherwise wait until its timeout.
    const steady_clock::time_point last_attempt_at_ =
        started_at_ +
        bounded_wait(options_.timeout - std::min(options_.timeout / 8, max_last_attempt_time));
    const bool supports_waiting_ = backend_.backing_engine()->supports_waiting();
    std::optional<wait_queue::ticket> ticket_;
    bool is_waiting_ = false;          ///< The key was found locked at least once.
    bool was_answered_early_ = false;  ///< Of the latest attempt that waited.
    unsigned attempts_ = 0;
    unsigned times_locked_ = 0;
    std::exception_ptr last_failure_;
};

}  // namespace

std::shared_ptr<lease_core> acquire_with_retries(const backend_core& backend, std::string_view key,
                                                 const lock_options& options) {
    const deferred_cancellation whole_call;
    backend.check_process();
    refuse_negative(options);
    return acquire_loop(backend, key, options).wait();
}

void refuse_if_expired(lease_core& lease) {
    if (lease.valid()) return;
    lease.dispose();
    throw lock_error(error_code::acquisition_timeout,
                     "the lock's time was over before the work under it could begin; use a longer "
                     "TTL",
                     {.key = lease.key(), .lock_id = lease.id().to_string()});
}

}  // namespace syncguard::detail
