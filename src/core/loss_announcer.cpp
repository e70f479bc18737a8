#include "loss_announcer.hpp"

#include <syncguard/detail/lease_core.hpp>

#include <utility>

namespace syncguard {

namespace {

/// So many callbacks can block before others are told late.
constexpr int most_threads = 4;

/// User code; whatever it does to this thread must not end it.
void tell(const loss_handler& handler, const loss& what) noexcept {
    try {
        if (handler) handler(what);
    } catch (...) {  // as promised to those who throw
    }
}

}  // namespace

void loss_announcer::ensure_started() {
    const std::lock_guard guard(mutex_);
    if (threads_ == 0) start_thread();
}

/// With the lock held.
void loss_announcer::start_thread() {
    std::thread([this] { run(); }).detach();
    ++threads_;
}

void loss_announcer::announce(lease_supervision& whose, std::shared_ptr<detail::lease_core> lease,
                              loss what) noexcept {
    const std::lock_guard guard(mutex_);
    if (whose.closed || whose.lost) return;
    whose.lost = std::move(what);
    enqueue(whose, std::move(lease));
}

void loss_announcer::drop(lease_supervision& whose,
                          std::shared_ptr<detail::lease_core> lease) noexcept {
    const std::lock_guard guard(mutex_);
    if (!whose.kept_until_told) enqueue(whose, std::move(lease));
}

/// With the lock held.
void loss_announcer::enqueue(lease_supervision& whose,
                             std::shared_ptr<detail::lease_core> lease) noexcept {
    whose.kept_until_told = std::move(lease);
    lost_.push_back(whose);
    // Not merely if none is idle: one that is may be meant for another loss already.
    if (lost_.size() > idle_threads_ && threads_ < most_threads) {
        try {
            start_thread();
        } catch (const std::exception&) {  // then one of the others will do it
        }
    }
    has_news_.notify_one();
}

std::stop_token loss_announcer::token_of(lease_supervision& whose) {
    const std::lock_guard guard(mutex_);
    if (!whose.stop.stop_possible()) {
        whose.stop = std::stop_source();
        // Nobody has it yet: this runs no callback.
        if (whose.lost && !whose.closed) whose.stop.request_stop();
    }
    return whose.stop.get_token();
}

void loss_announcer::set_handler(lease_supervision& whose, loss_handler handler) {
    // Exchanged, so that the former one is destroyed without the lock: it is user code.
    const std::lock_guard guard(mutex_);
    if (whose.closed) return;
    whose.handler.swap(handler);
    const bool will_be_told = whose.kept_until_told || whose.teller != std::thread::id();
    if (whose.lost && !will_be_told) enqueue(whose, whose.lease.shared_from_this());
}

void loss_announcer::close(lease_supervision& whose) noexcept {
    std::shared_ptr<detail::lease_core> dropped_lease;
    loss_handler dropped_handler;
    const std::lock_guard guard(mutex_);
    whose.closed = true;
    dropped_handler.swap(whose.handler);
    if (!whose.kept_until_told) return;
    dropped_lease = std::move(whose.kept_until_told);
    lost_.erase(lost_.iterator_to(whose));
}

void loss_announcer::wait_until_told(lease_supervision& whose) {
    std::unique_lock guard(mutex_);
    if (whose.teller == std::this_thread::get_id()) return;
    told_.wait(guard, [&] { return whose.teller == std::thread::id(); });
}

void loss_announcer::run() {
    std::unique_lock guard(mutex_);
    while (true) {
        ++idle_threads_;
        has_news_.wait(guard, [&] { return !lost_.empty(); });
        --idle_threads_;
        auto& next = lost_.front();
        lost_.pop_front();
        auto lease = std::move(next.kept_until_told);
        if (next.lost && !next.closed) tell_of(next, guard);
        // The last owner of a store may take a while to end it.
        guard.unlock();
        lease.reset();
        guard.lock();
    }
}

void loss_announcer::tell_of(lease_supervision& lost, std::unique_lock<std::mutex>& guard) {
    lost.teller = std::this_thread::get_id();
    const loss what = *lost.lost;
    auto stop = lost.stop;
    do {
        auto handler = std::exchange(lost.handler, {});
        guard.unlock();
        stop.request_stop();
        tell(handler, what);
        handler = nullptr;
        guard.lock();
        // Another may have been set while this one ran.
    } while (lost.handler);
    lost.teller = {};
    told_.notify_all();
}

}  // namespace syncguard
