#include "util/handler_threads.hpp"

#include "util/fork_generation.hpp"
#include "util/library_thread.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <optional>

namespace syncguard {

namespace {

/// The process in which the thread runs handlers. A child that a handler forks has no such thread.
thread_local std::optional<std::uint32_t> handlers_of;

}  // namespace

bool handler_threads::run_this_thread() noexcept {
    return handlers_of == fork_generation();
}

void handler_threads::ensure_started() {
    const std::lock_guard guard(mutex_);
    if (idle_ + busy_ == 0) start_thread();
}

/// With the lock held.
void handler_threads::start_thread() {
    syncguard::start_thread("syncguard-user", [this] { run(); }).detach();
    ++idle_;
}

/// With the lock held. If no thread can be started, the existing threads do the work.
void handler_threads::start_spare_thread() noexcept {
    try {
        start_thread();
    } catch (const std::exception&) {
    }
}

void handler_threads::submit(handler_task& task, urgency level) noexcept {
    const std::lock_guard guard(mutex_);
    task.queue_ = level == urgency::stop_request ? &stop_requests_ : &handlers_;
    task.queue_->push_back(task);
    const bool has_enough_idle = idle_ >= stop_requests_.size() + handlers_.size();
    if (idle_ == 0 || (!has_enough_idle && idle_ + busy_ < base_threads)) start_spare_thread();
    changed_.notify_one();
}

bool handler_threads::cancel(handler_task& task) noexcept {
    const std::lock_guard guard(mutex_);
    if (!task.is_linked()) return false;
    task.queue_->erase(task.queue_->iterator_to(task));
    return true;
}

handler_threads::batch::batch(handler_threads& threads) noexcept : threads_(threads) {
    const std::lock_guard guard(threads_.mutex_);
    ++threads_.batches_;
}

handler_threads::batch::~batch() {
    const std::lock_guard guard(threads_.mutex_);
    --threads_.batches_;
    if (!threads_.handlers_.empty()) threads_.changed_.notify_all();
}

handler_threads::task_queue* handler_threads::next_queue() noexcept {
    if (!stop_requests_.empty()) return &stop_requests_;
    return handlers_.empty() || batches_ > 0 ? nullptr : &handlers_;
}

/// Waits until there is a task and one more thread may be busy.
void handler_threads::wait_until_allowed(std::unique_lock<std::mutex>& guard) {
    using clock = std::chrono::steady_clock;
    while (true) {
        const auto* const queue = next_queue();
        const bool must_wait_for_stop = queue == &handlers_ && stopping_ > stuck_stopping_;
        if (queue == nullptr) {
            changed_.wait(guard);
        } else if (busy_ < max_busy_ && !must_wait_for_stop) {
            return;
        } else if (const auto stuck_at = last_taken_ + stall_timeout; clock::now() < stuck_at) {
            changed_.wait_until(guard, stuck_at);
        } else {
            stuck_stopping_ = stopping_;
            if (busy_ >= max_busy_) max_busy_ *= 2;
        }
    }
}

void handler_threads::run() {
    handlers_of = fork_generation();
    std::unique_lock guard(mutex_);
    do {
        wait_until_allowed(guard);
        auto& queue = *next_queue();
        const bool requests_stop = &queue == &stop_requests_;
        auto& task = queue.front();
        queue.pop_front();
        if (requests_stop) ++stopping_;
        --idle_;
        ++busy_;
        last_taken_ = std::chrono::steady_clock::now();
        // An idle thread is needed to detect that this task does not return.
        if (idle_ == 0) start_spare_thread();
        guard.unlock();
        task.run();
        guard.lock();
        if (requests_stop) stuck_stopping_ = std::min(stuck_stopping_, --stopping_);
        --busy_;
        ++idle_;
        if (next_queue() == nullptr) max_busy_ = busy_ + base_threads;
    } while (idle_ <= base_threads);
    --idle_;
}

}  // namespace syncguard
