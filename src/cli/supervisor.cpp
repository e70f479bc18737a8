#include "supervisor.hpp"

#include <poll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

namespace syncguard::cli {

namespace {

/// In the terms of `lease_clock`, never later than it really is.
lease_clock::time_point end_of(const held_lock& lock) noexcept {
    const auto now = lease_clock::now();
    return now + lock.remaining();
}

}  // namespace

supervisor::supervisor(held_lock& lock, milliseconds ttl, child_process& child,
                       const signal_inbox& signals)
    : lock_(lock),
      ttl_(ttl),
      child_(child),
      signals_(signals),
      // The clock of leases: a machine that wakes from suspension notices at once.
      timer_(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd_create"),
      deadline_(end_of(lock)),
      worker_(lock, ttl) {}

std::optional<std::string> supervisor::watch() {
    do {
        sleep_until_something_happens();
        // The lock comes first: this process may have been stopped for longer than it lived.
        take_renewal_report();
        see_to_lock();
        forward_signals();
    } while (!child_.reap());
    return std::move(loss_);
}

lease_clock::time_point supervisor::next_wakeup(lease_clock::time_point now) const noexcept {
    if (loss_) return killed_ ? lease_clock::time_point::max() : kill_at_;
    const auto schedule = schedule_renewal(deadline_, ttl_);
    if (worker_.busy()) return schedule.terminate_at;
    const auto renewal = std::max({schedule.renew_at, retry_not_before_, now});
    return std::min(renewal, schedule.terminate_at);
}

void supervisor::sleep_until_something_happens() const {
    const auto until = next_wakeup(lease_clock::now()).time_since_epoch();
    const auto seconds = std::chrono::floor<std::chrono::seconds>(until);
    itimerspec setting{};
    setting.it_value = {.tv_sec = seconds.count(), .tv_nsec = (until - seconds).count()};
    ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &setting, nullptr);

    std::array<pollfd, 3> events{pollfd{.fd = signals_.fd(), .events = POLLIN, .revents = 0},
                                 pollfd{.fd = worker_.fd(), .events = POLLIN, .revents = 0},
                                 pollfd{.fd = timer_.get(), .events = POLLIN, .revents = 0}};
    ::poll(events.data(), events.size(), -1);
}

void supervisor::take_renewal_report() {
    auto report = worker_.take();
    if (!report || loss_) return;
    switch (report->result) {
        case renewal_report::outcome::extended:
            deadline_ = end_of(lock_);
            last_failure_.clear();
            break;
        case renewal_report::outcome::gone:
            lose("it was released by somebody else, or the store lost it",
                 kill_time_after_loss(lease_clock::now(), deadline_, ttl_));
            break;
        case renewal_report::outcome::failed:
            retry_not_before_ = lease_clock::now() + renewal_retry_pause(ttl_);
            last_failure_ = std::move(report->failure);
            break;
    }
}

void supervisor::see_to_lock() {
    const auto now = lease_clock::now();
    const auto schedule = schedule_renewal(deadline_, ttl_);
    if (!loss_ && now >= schedule.terminate_at) {
        lose(last_failure_.empty() ? "it could not be renewed in time"
                                   : "it could not be renewed: " + last_failure_,
             schedule.kill_at);
    }
    if (loss_) {
        if (now >= kill_at_ && !killed_) {
            killed_ = true;
            child_.kill();
        }
        return;
    }
    if (!worker_.busy() && now >= schedule.renew_at && now >= retry_not_before_) {
        worker_.start(renewal_timeout(ttl_));
    }
}

void supervisor::forward_signals() const {
    while (const auto signal = signals_.take()) {
        if (signal->number != SIGCHLD) child_.forward(*signal);
    }
}

void supervisor::lose(std::string why, lease_clock::time_point kill_at) {
    loss_ = std::move(why);
    kill_at_ = kill_at;
    child_.terminate();
}

}  // namespace syncguard::cli
