#include "util/timer_thread.hpp"

#include <condition_variable>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace syncguard {

struct timer_thread::shared_state {
    struct entry {
        ticket id;
        std::function<void()> task;
    };
    using timeline = std::multimap<clock::time_point, entry>;

    std::mutex mutex;
    std::condition_variable changed;
    timeline tasks;
    std::unordered_map<ticket, timeline::iterator> by_ticket;
    ticket last = 0;
    bool ending = false;
};

timer_thread::timer_thread() : state_(std::make_shared<shared_state>()) {}

timer_thread::~timer_thread() {
    if (!thread_.belongs_to_parent()) {
        {
            const std::lock_guard guard(state_->mutex);
            state_->ending = true;
        }
        state_->changed.notify_all();
    }
    thread_.end();
}

timer_thread::ticket timer_thread::schedule(clock::time_point due, std::function<void()> task) {
    const std::lock_guard guard(state_->mutex);
    thread_.ensure_started("syncguard-timer", [state = state_] { run(state); });
    const ticket id = ++state_->last;
    const auto position = state_->tasks.emplace(due, shared_state::entry{id, std::move(task)});
    state_->by_ticket.emplace(id, position);
    if (position == state_->tasks.begin()) state_->changed.notify_all();
    return id;
}

void timer_thread::cancel(ticket id) noexcept {
    std::function<void()> dropped;
    const std::lock_guard guard(state_->mutex);
    const auto found = state_->by_ticket.find(id);
    if (found == state_->by_ticket.end()) return;
    dropped = std::move(found->second->second.task);
    state_->tasks.erase(found->second);
    state_->by_ticket.erase(found);
}

void timer_thread::run(const std::shared_ptr<shared_state>& state) {
    std::unique_lock guard(state->mutex);
    while (!state->ending) {
        if (state->tasks.empty()) {
            state->changed.wait(guard);
            continue;
        }
        const auto next = state->tasks.begin();
        // A copy: the entry may be cancelled during the wait.
        if (const auto due = next->first; clock::now() < due) {
            state->changed.wait_until(guard, due);
            continue;
        }
        auto task = std::move(next->second.task);
        state->by_ticket.erase(next->second.id);
        state->tasks.erase(next);
        guard.unlock();
        task();
        task = nullptr;
        guard.lock();
    }
}

}  // namespace syncguard
