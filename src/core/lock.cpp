#include "longest_wait.hpp"
#include "waiting_line.hpp"

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

/// Jitter spreads waiters, nothing more: a cheap generator seeded once for each thread will do.
double random_fraction() {
    thread_local std::minstd_rand generator(std::random_device{}());
    return std::uniform_real_distribution<double>(0.0, 1.0)(generator);
}

/// Where a store that would tell fails, it may not be able to: it is asked again soon.
constexpr milliseconds failure_pause{500};

/// A lock that outlives what was said of it is not asked for in a busy loop.
constexpr milliseconds shortest_pause{20};

/// What does not mean that waiting is in vain.
bool may_pass(error_code code) {
    return code == error_code::service_unavailable || code == error_code::network_timeout ||
           code == error_code::rate_limited;
}

/// One caller on its way to a lock. Its time is divided into rounds, one for each attempt that the
/// retry policy grants; a round lasts as long as the policy's pause.
class waiting_caller {
  public:
    waiting_caller(const backend_core& backend, std::string_view key, const lock_options& options)
        : backend_(backend),
          key_(normalize_and_validate_key(key)),
          options_(options),
          began_(steady_clock::now()) {}

    std::shared_ptr<lease_core> wait() {
        std::optional<waiting_line::place> place;
        if (options_.retry.max_retries > 0) {
            place.emplace(backend_.line(), key_);
            // Whoever is in front has found it locked.
            is_waiting_ = !place->is_first_by(began_, {});
        }
        for (unsigned round = 0;; ++round) {
            const bool is_last =
                round == options_.retry.max_retries && round != retry_policy::unlimited_retries;
            auto pause = milliseconds{0};
            if (!is_last) pause = retry_pause(options_.retry, round + 1, random_fraction(), left());
            const auto round_ends = steady_clock::now() + bounded_wait(pause);
            // What the first in line finds locked is locked for those behind it, too.
            if (is_last || !place || place->is_first_by(round_ends, options_.stop)) {
                if (auto lease = try_until(round_ends)) return lease;
            }
            if (options_.stop.stop_requested()) abort_waiting(key_);
            if (is_last || left() <= milliseconds{0}) give_up(round + 1);
        }
    }

  private:
    [[nodiscard]] milliseconds left() const {
        if (options_.timeout == milliseconds::max()) return milliseconds::max();
        return options_.timeout - std::chrono::floor<milliseconds>(steady_clock::now() - began_);
    }

    /// Null if the lock was not to be had in this round.
    std::shared_ptr<lease_core> try_until(steady_clock::time_point round_ends) {
        do {
            if (options_.stop.stop_requested()) abort_waiting(key_);
            // To linger costs more than to ask, and most locks are free.
            const bool lingers = is_waiting_ && tells_when_free_;
            auto next = round_ends;
            try {
                auto made = attempt(lingers ? round_ends : steady_clock::time_point{});
                if (made.lease) return std::move(made.lease);
                last_failure_ = nullptr;
                // Where the store tells, begin to be told, then look again.
                if (!std::exchange(is_waiting_, true) && tells_when_free_) continue;
                if (made.locked_for) {
                    next = std::min(next,
                                    steady_clock::now() +
                                        bounded_wait(std::max(*made.locked_for, shortest_pause)));
                }
            } catch (const grant_expired&) {
                last_failure_ = std::current_exception();
            } catch (const lock_error& failure) {
                const bool own_deadline =
                    failure.code() == error_code::network_timeout && left() <= milliseconds{0};
                if (!own_deadline && !(is_waiting_ && may_pass(failure.code()))) throw;
                last_failure_ = std::current_exception();
                if (tells_when_free_) next = std::min(next, steady_clock::now() + failure_pause);
            }
            // After an attempt that lingered, the round is over by now.
            sleep_interruptibly_until(next);
        } while (steady_clock::now() < round_ends);
        return nullptr;
    }

    [[nodiscard]] backend_core::attempt attempt(steady_clock::time_point linger_until) const {
        acquire_options how{.ttl = options_.ttl};
        // The first attempt is made in any case; without time of its own it has the backend's.
        if (const auto remaining = left(); remaining > milliseconds{0}) {
            const auto lingers = std::chrono::ceil<milliseconds>(
                std::max(linger_until - steady_clock::now(), steady_clock::duration{0}));
            how.timeout =
                std::min(lingers + bounded_wait(backend_.options().operation_timeout), remaining);
        }
        return backend_.acquire(key_, how, options_.stop, linger_until);
    }

    void sleep_interruptibly_until(steady_clock::time_point then) const {
        std::mutex mutex;
        std::condition_variable_any never;
        std::unique_lock guard(mutex);
        never.wait_until(guard, options_.stop, then, [] { return false; });
    }

    [[noreturn]] void give_up(unsigned attempts) const {
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
            std::chrono::duration_cast<milliseconds>(steady_clock::now() - began_).count();
        throw lock_error(error_code::acquisition_timeout,
                         "somebody else held the lock for " + std::to_string(waited) + " ms and " +
                             std::to_string(attempts) + (attempts == 1 ? " attempt" : " attempts") +
                             "; wait longer, retry more often, or look who holds it",
                         context);
    }

    const backend_core& backend_;
    const std::string key_;
    const lock_options& options_;
    const steady_clock::time_point began_;
    const bool tells_when_free_ = backend_.store()->tells_when_free();
    bool is_waiting_ = false;  ///< It was found locked at least once.
    std::exception_ptr last_failure_;
};

}  // namespace

std::shared_ptr<lease_core> acquire_with_retries(const backend_core& backend, std::string_view key,
                                                 const lock_options& options) {
    backend.check_process();
    refuse_negative(options);
    return waiting_caller(backend, key, options).wait();
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
