#include <syncguard/lock.hpp>

#include <algorithm>
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

/// Returns early when `stop` is requested.
void sleep_interruptibly(milliseconds pause, const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock guard(mutex);
    never.wait_for(guard, stop, pause, [] { return false; });
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
    const auto began = steady_clock::now();
    const auto left = [&] {
        if (options.timeout == milliseconds::max()) return milliseconds::max();
        const auto waited = std::chrono::floor<milliseconds>(steady_clock::now() - began);
        return options.timeout - waited;
    };

    for (unsigned attempts = 1;; ++attempts) {
        if (options.stop.stop_requested()) abort_waiting(key);
        const milliseconds allowed = left();
        if (allowed <= milliseconds{0}) give_up(key, attempts - 1, steady_clock::now() - began);
        const bool unbounded = allowed == milliseconds::max();
        try {
            const acquire_options bounds{.ttl = options.ttl,
                                         .timeout = unbounded ? milliseconds{0} : allowed};
            if (attempt(bounds, options.stop)) return;
        } catch (const lock_error& failure) {
            if (failure.code() == error_code::network_timeout && left() <= milliseconds{0}) {
                give_up(key, attempts, steady_clock::now() - began);
            }
            throw;
        }

        if (options.retry.max_retries != retry_policy::unlimited_retries &&
            attempts > options.retry.max_retries) {
            give_up(key, attempts, steady_clock::now() - began);
        }
        sleep_interruptibly(retry_pause(options.retry, attempts, random_fraction(), left()),
                            options.stop);
    }
}

}  // namespace syncguard::detail
