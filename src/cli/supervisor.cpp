#include "cli/supervisor.hpp"

#include "cli/output.hpp"

#include <poll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <exception>
#include <system_error>
#include <utility>

namespace syncguard::cli {

namespace {

std::string describe_renewal_failure(const std::exception_ptr& failure) {
    if (!failure) return "it could not be renewed in time";
    try {
        std::rethrow_exception(failure);
    } catch (const std::exception& error) {
        return std::string("it could not be renewed: ") + error.what();
    }
}

std::string describe(const refused_signal& refused) {
    return "to process " + std::to_string(refused.process) + " (" +
           std::generic_category().message(refused.error) +
           (refused.error == EPERM ? ": it runs as another user)" : ")");
}

/// Reads the clock before `remaining()`, so the result is never later than the lease's deadline.
lease_clock::time_point deadline_of(held_lock& lock) {
    const auto now = lease_clock::now();
    return now + lock.remaining();
}

}  // namespace

supervisor::supervisor(held_lock& lock, milliseconds ttl, const signal_queue& signals)
    : lock_(lock),
      ttl_(ttl),
      signals_(signals),
      // The clock of leases, so that the timer expires at once after a suspension.
      timer_(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd_create"),
      shared_deadline_(deadline_) {
    lock_.on_lost([notice = notice_](const loss& lost) { notice->post(lost.reason); });
    lock_.keep_alive({.ttl = ttl});
    deadline_ = deadline_of(lock_);
    shared_deadline_.set(deadline_);
}

std::optional<std::string> supervisor::watch(child_process& child) {
    bool ended = false;
    do {
        wait_for_event();
        // Check the lock before signals: the lease may have expired while this process was stopped.
        check_lock(child);
        report_unending(child);
        forward_signals(child);
        ended = child.reap();
        report_unending(child);
    } while (!ended);
    if (!loss_ && child.start_failure() == child_process::deadline_passed) {
        loss_ = "its time was over before the command could start";
    }
    return std::move(loss_);
}

lease_clock::time_point supervisor::next_wakeup() const noexcept {
    if (loss_) return killed_ ? lease_clock::time_point::max() : kill_at_;
    // Usually a renewal has moved the deadline before this time, and the loop sleeps again.
    return schedule_termination(deadline_, ttl_).terminate_at;
}

void supervisor::wait_for_event() const {
    const auto until = next_wakeup().time_since_epoch();
    const auto seconds = std::chrono::floor<std::chrono::seconds>(until);
    itimerspec setting{};
    setting.it_value = {.tv_sec = seconds.count(), .tv_nsec = (until - seconds).count()};
    ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &setting, nullptr);

    std::array<pollfd, 3> events{pollfd{.fd = signals_.fd(), .events = POLLIN, .revents = 0},
                                 pollfd{.fd = notice_->fd(), .events = POLLIN, .revents = 0},
                                 pollfd{.fd = timer_.get(), .events = POLLIN, .revents = 0}};
    ::poll(events.data(), events.size(), -1);
    notice_->clear();
}

void supervisor::check_lock(child_process& child) {
    const auto now = lease_clock::now();
    // `now` was read first, so `deadline_` is never later than the lease's. If the store reported
    // the lock as not held, the last known deadline stays. If the lease expired, the deadline is
    // now.
    if (const auto left = lock_.remaining(); left > milliseconds{0}) {
        deadline_ = now + left;
    } else if (notice_->says_expired()) {
        deadline_ = std::min(deadline_, now);
    }
    if (!loss_ && !notice_->says_gone()) shared_deadline_.set(deadline_);

    const auto schedule = schedule_termination(deadline_, ttl_);
    if (!loss_ && notice_->says_gone()) {
        begin_termination(child, "it was released by another client, or the store lost it",
                          kill_time_after_loss(now, deadline_, ttl_));
    } else if (!loss_ && now >= schedule.terminate_at) {
        begin_termination(child, describe_renewal_failure(lock_.renewal_failure()),
                          schedule.kill_at);
    }
    if (loss_ && now >= kill_at_ && !killed_) {
        killed_ = true;
        child.kill();
    }
}

void supervisor::forward_signals(child_process& child) const {
    while (const auto signal = signals_.take()) {
        if (signal->number == SIGCHLD) continue;
        if (const auto refused = child.forward(*signal)) {
            print_warning("cannot pass SIG" + std::string(::sigabbrev_np(signal->number)) + " on " +
                          describe(*refused) + ". It goes on, and so does the renewal of its lock");
        }
    }
}

void supervisor::report_unending(child_process& child) {
    const auto refused = child.take_refused();
    if (!refused || !reported_.insert(refused->process).second) return;
    print_warning(
        "lost the lock: " + *loss_ + ". Cannot end the command: no signal can be sent " +
        describe(*refused) +
        ". It goes on, perhaps beside another holder: end it. Its lock is renewed as long "
        "as the store allows it");
}

void supervisor::begin_termination(child_process& child, std::string reason,
                                   lease_clock::time_point kill_at) {
    loss_ = std::move(reason);
    kill_at_ = kill_at;
    // A child that ignores SIGTERM must not execute the command either.
    shared_deadline_.set(lease_clock::time_point::min());
    child.terminate();
}

}  // namespace syncguard::cli
