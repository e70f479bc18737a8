#include "longest_wait.hpp"

#include <syncguard/lock.hpp>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <string>

namespace syncguard::detail {

namespace {

using std::chrono::steady_clock;

[[noreturn]] void give_up(std::string_view key, unsigned attempts, steady_clock::duration waited) {
    throw lock_error(error_code::acquisition_timeout,
                     "somebody else held the lock for " +
                         std::to_string(std::chrono::duration_cast<milliseconds>(waited).count()) +
                         " ms and " + std::to_string(attempts) +
                         (attempts == 1 ? " attempt" : " attempts") +
                         "; wait longer, retry more often, or look who holds it",
                     {.key = std::string(key), .lock_id = {}});
}

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

/// Returns early when `stop` is requested.
void sleep_interruptibly(milliseconds pause, const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock guard(mutex);
    never.wait_for(guard, stop, bounded_wait(pause), [] { return false; });
}

/// Jitter spreads waiters, nothing more: a cheap generator seeded once for each thread will do.
double random_fraction() {
    thread_local std::minstd_rand generator(std::random_device{}());
    return std::uniform_real_distribution<double>(0.0, 1.0)(generator);
}

}  // namespace

void retry_until_acquired(
    std::string_view key, const lock_options& options,
    const std::function<bool(const acquire_options& options, std::stop_token stop)>& attempt) {
    refuse_negative(options);
    const auto began = steady_clock::now();
    const auto left = [&] {
        if (options.timeout == milliseconds::max()) return milliseconds::max();
        return options.timeout - std::chrono::floor<milliseconds>(steady_clock::now() - began);
    };

    for (unsigned attempts = 1;; ++attempts) {
        if (options.stop.stop_requested()) abort_waiting(key);
        const milliseconds allowed = left();
        // The first attempt is made in any case; without time of its own it has the backend's.
        const bool bounded = allowed > milliseconds{0} && allowed != milliseconds::max();
        try {
            if (attempt({.ttl = options.ttl, .timeout = bounded ? allowed : milliseconds{0}},
                        options.stop)) {
                return;
            }
        } catch (const lock_error& failure) {
            if (failure.code() != error_code::network_timeout || left() > milliseconds{0}) throw;
            throw lock_error(error_code::acquisition_timeout, failure.what(),
                             {.key = std::string(key), .lock_id = {}});
        }

        const bool retries_left = options.retry.max_retries == retry_policy::unlimited_retries ||
                                  attempts <= options.retry.max_retries;
        if (retries_left && left() > milliseconds{0}) {
            sleep_interruptibly(retry_pause(options.retry, attempts, random_fraction(), left()),
                                options.stop);
        }
        if (!retries_left || left() <= milliseconds{0}) {
            give_up(key, attempts, steady_clock::now() - began);
        }
    }
}

}  // namespace syncguard::detail
