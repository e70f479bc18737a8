#include "cli/acquisition.hpp"

#include "util/wakeup.hpp"

#include <syncguard/lock.hpp>

#include <poll.h>

#include <array>
#include <future>
#include <utility>

namespace syncguard::cli {

namespace {

lock_options retry_options(milliseconds ttl, wait_limit limit, std::stop_token stop) {
    const bool once = limit == milliseconds{0};
    return {.ttl = ttl,
            .timeout = once ? milliseconds::max() : limit.value_or(milliseconds::max()),
            .retry = {.max_retries = once ? 0 : retry_policy::unlimited_retries,
                      .retry_delay = milliseconds{50},
                      // Short, because a user may be waiting for the command.
                      .max_delay = milliseconds{250}},
            .stop = std::move(stop)};
}

held_lock retry(const any_backend& locks, std::string_view key, milliseconds ttl, wait_limit limit,
                const std::stop_token& stop) {
    while (true) {
        try {
            return acquire_with_retries(locks, key, retry_options(ttl, limit, stop));
        } catch (const lock_error& failure) {
            const bool no_answer =
                failure.code() == error_code::network_timeout ||
                (failure.code() == error_code::acquisition_timeout && failure.cause() != nullptr);
            if (!no_answer) throw;
            // A lock file that other processes keep busy for a while is no reason to end an
            // unlimited wait, and no proof that the lock is held. A server that does not answer may
            // not exist, so this ends the wait.
            if (limit || locks.capabilities().backend != "sqlite") {
                throw lock_error(error_code::network_timeout, failure.what());
            }
        }
    }
}

std::optional<int> interrupting_signal(const signal_queue& signals) {
    while (const auto signal = signals.take()) {
        if (signal->number != SIGCHLD && !signals.inherited_as_ignored(signal->number)) {
            return signal->number;
        }
    }
    return std::nullopt;
}

}  // namespace

void throw_if_interrupted(const signal_queue& signals) {
    if (const auto signal = interrupting_signal(signals)) throw interrupted{*signal};
}

held_lock take_lock(const any_backend& locks, std::string_view key, milliseconds ttl,
                    wait_limit limit, const signal_queue& signals) {
    const wakeup finished;
    std::stop_source stop;
    // On another thread, so that this thread can react to signals while the store is slow.
    auto attempt = std::async(std::launch::async, [&] {
        const struct announcement {
            const wakeup& target;
            ~announcement() { target.notify(); }
        } at_the_end{finished};
        return retry(locks, key, ttl, limit, stop.get_token());
    });

    std::array<pollfd, 2> events{pollfd{.fd = signals.fd(), .events = POLLIN, .revents = 0},
                                 pollfd{.fd = finished.fd(), .events = POLLIN, .revents = 0}};
    while (events[1].revents == 0) {
        ::poll(events.data(), events.size(), -1);
        if (const auto signal = interrupting_signal(signals)) {
            stop.request_stop();
            try {
                // If the lock was acquired at the same time, the lease's destructor releases it
                // here.
                (void)attempt.get();
            } catch (const lock_error&) {
                // The signal is reported, not this failure.
            }
            throw interrupted{*signal};
        }
    }
    return attempt.get();
}

}  // namespace syncguard::cli
