#include "waiting_line.hpp"

#include "fork_generation.hpp"

#include <algorithm>

namespace syncguard {

waiting_line::waiting_line() {
    fork_guard::add(*this);
}

waiting_line::~waiting_line() {
    fork_guard::remove(*this);
}

void waiting_line::after_fork_in_child() {
    queues_.clear();
    mutex_.unlock();
}

std::pair<const std::string, std::list<waiting_line::place*>>& waiting_line::join(
    std::string_view key, place* who) {
    const std::lock_guard guard(mutex_);
    auto& queue = *queues_.try_emplace(std::string(key)).first;
    queue.second.push_back(who);
    return queue;
}

waiting_line::place::place(waiting_line& line, std::string_view key)
    : line_(line), process_(fork_generation()), queue_(line.join(key, this)) {}

waiting_line::place::~place() {
    // In a child of the thread that waits, there is no line any more.
    if (process_ != fork_generation()) return;
    const std::lock_guard guard(line_.mutex_);
    auto& [key, places] = queue_;
    const bool was_first = is_first();
    std::erase(places, this);
    if (places.empty()) {
        line_.queues_.erase(line_.queues_.find(key));
    } else if (was_first) {
        places.front()->moved_up_.notify_one();
    }
}

bool waiting_line::place::is_first_by(std::chrono::steady_clock::time_point until,
                                      const std::stop_token& stop) {
    if (process_ != fork_generation()) return true;
    std::unique_lock guard(line_.mutex_);
    return moved_up_.wait_until(guard, stop, until, [this] { return is_first(); });
}

}  // namespace syncguard
