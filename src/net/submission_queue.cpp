#include "net/submission_queue.hpp"

#include <syncguard/error.hpp>

#include <new>
#include <utility>

namespace syncguard::net {

namespace {

constexpr std::size_t max_outstanding = 100'000;

}  // namespace

submission_queue::submission_queue(io_loop::handler& io_handler, std::string server_name)
    : server_name_(std::move(server_name)), loop_(io_handler) {}

void submission_queue::execute(const std::shared_ptr<operation>& op) {
    admit(*op);
    try {
        loop_.execute(op);
    } catch (...) {
        if (!op->was_submitted()) retire(*op);
        throw;
    }
}

void submission_queue::submit(const std::shared_ptr<operation>& op) {
    admit(*op);
    try {
        loop_.submit(op);
    } catch (...) {
        retire(*op);
        throw;
    }
}

void submission_queue::cancel(std::shared_ptr<operation> op) noexcept {
    op->cancel_requested_ = true;
    try {
        {
            const std::lock_guard guard(mutex_);
            cancelled_.push_back(std::move(op));
            has_cancelled_ = true;
        }
        loop_.notify();
    } catch (const std::bad_alloc&) {  // its deadline will end it
    }
}

void submission_queue::shutdown(std::chrono::milliseconds grace) {
    const auto background_drained = [&] { return background_outstanding_ == 0; };
    const auto background_drained_now = [&] {
        const std::lock_guard guard(mutex_);
        return background_drained();
    };
    // If a completion handler was the last owner, this thread is the leader, and must run the loop
    // for the background operations.
    try {
        loop_.notify();
        const auto until = std::chrono::steady_clock::now() + grace;
        if (!loop_.run_if_leader(background_drained_now, until)) {
            std::unique_lock guard(mutex_);
            background_drained_.wait_for(guard, grace, background_drained);
        }
    } catch (const std::exception&) {  // out of memory: background operations are abandoned
    }
    loop_.shutdown();
}

void submission_queue::admit(const operation& op) {
    // Many waiting acquisitions must not make an extension or a release fail.
    if (outstanding_ >= max_outstanding && !op.has_priority()) {
        throw lock_error(error_code::rate_limited,
                         "too many operations wait for " + server_name_ + " already");
    }
    ++outstanding_;
    if (!op.is_background()) return;
    const std::lock_guard guard(mutex_);
    ++background_outstanding_;
}

void submission_queue::retire(const operation& op) noexcept {
    --outstanding_;
    if (!op.is_background()) return;
    const std::lock_guard guard(mutex_);
    if (--background_outstanding_ == 0) background_drained_.notify_all();
}

void submission_queue::drain_cancelled(std::vector<std::shared_ptr<operation>>& into) {
    if (!has_cancelled_.exchange(false)) return;
    const std::lock_guard guard(mutex_);
    into.swap(cancelled_);
}

}  // namespace syncguard::net
