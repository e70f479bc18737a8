#include "renewal_worker.hpp"

#include <utility>

namespace syncguard::cli {

renewal_worker::renewal_worker(held_lock& lock, milliseconds ttl)
    : lock_(lock), ttl_(ttl), thread_([this](const std::stop_token& stop) { work(stop); }) {}

void renewal_worker::start(milliseconds timeout) {
    busy_ = true;
    {
        const std::lock_guard guard(mutex_);
        request_ = timeout;
    }
    requested_.notify_one();
}

std::optional<renewal_report> renewal_worker::take() {
    const std::lock_guard guard(mutex_);
    auto report = std::exchange(report_, std::nullopt);
    if (report) {
        reported_.clear();
        busy_ = false;
    }
    return report;
}

void renewal_worker::work(const std::stop_token& stop) {
    std::unique_lock guard(mutex_);
    while (requested_.wait(guard, stop, [this] { return request_.has_value(); })) {
        if (stop.stop_requested()) return;
        const auto timeout = *std::exchange(request_, std::nullopt);
        guard.unlock();
        auto report = renew(timeout, stop);
        guard.lock();
        report_ = std::move(report);
        reported_.notify();
    }
}

renewal_report renewal_worker::renew(milliseconds timeout, const std::stop_token& stop) const {
    using enum renewal_report::outcome;
    try {
        const bool lives_on = lock_.extend({.ttl = ttl_, .timeout = timeout}, stop).ok;
        return {.result = lives_on ? extended : gone, .failure = {}};
    } catch (const std::exception& failure) {
        return {.result = failed, .failure = failure.what()};
    }
}

}  // namespace syncguard::cli
