#include "net/submission_queue.hpp"

#include <syncguard/error.hpp>

#include <new>
#include <utility>

namespace syncguard::net {

namespace {

constexpr std::size_t most_unfinished = 100'000;

}  // namespace

front_desk::front_desk(driven& whose, std::string where)
    : where_(std::move(where)), driver_(whose) {}

void front_desk::perform(const std::shared_ptr<order>& what) {
    count_in(*what);
    try {
        driver_.perform(what);
    } catch (...) {
        if (!what->was_handed_in()) count_out(*what);
        throw;
    }
}

void front_desk::start(const std::shared_ptr<order>& what) {
    count_in(*what);
    try {
        driver_.start(what);
    } catch (...) {
        count_out(*what);
        throw;
    }
}

void front_desk::cancel(std::shared_ptr<order> what) noexcept {
    what->unwanted_ = true;
    try {
        {
            const std::lock_guard guard(mutex_);
            cancelled_.push_back(std::move(what));
            some_cancelled_ = true;
        }
        driver_.nudge();
    } catch (const std::bad_alloc&) {  // its deadline will end it
    }
}

void front_desk::end(std::chrono::milliseconds patience) {
    const auto none_persists = [&] { return persisting_ == 0; };
    const auto none_persists_now = [&] {
        const std::lock_guard guard(mutex_);
        return none_persists();
    };
    // Where the last owner was a completion, this is the thread that the orders need.
    try {
        driver_.nudge();
        const auto until = std::chrono::steady_clock::now() + patience;
        if (!driver_.drive_if_mine(none_persists_now, until)) {
            std::unique_lock guard(mutex_);
            none_persists_.wait_for(guard, patience, none_persists);
        }
    } catch (const std::exception&) {  // no memory: what persists is given up
    }
    driver_.end();
}

void front_desk::count_in(const order& what) {
    // Many waiting acquisitions must not make an extension or a release fail.
    if (unfinished_ >= most_unfinished && !what.has_priority()) {
        throw lock_error(error_code::rate_limited,
                         "too many operations wait for " + where_ + " already");
    }
    ++unfinished_;
    if (!what.persists()) return;
    const std::lock_guard guard(mutex_);
    ++persisting_;
}

void front_desk::count_out(const order& what) noexcept {
    --unfinished_;
    if (!what.persists()) return;
    const std::lock_guard guard(mutex_);
    if (--persisting_ == 0) none_persists_.notify_all();
}

void front_desk::take_cancelled(std::vector<std::shared_ptr<order>>& into) {
    if (!some_cancelled_.exchange(false)) return;
    const std::lock_guard guard(mutex_);
    into.swap(cancelled_);
}

}  // namespace syncguard::net
