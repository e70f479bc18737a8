#include "core/wait_queue.hpp"

#include "util/fork_generation.hpp"

#include <algorithm>
#include <charconv>
#include <functional>

namespace syncguard {

using std::chrono::steady_clock;

namespace {

/// Enough for a request and its answer, so that another client can acquire the key first.
constexpr std::chrono::milliseconds shortest_yield{20};

/// How long a client that knows of no other clients may acquire a key again and again. Then it
/// pauses once, so that waiting clients can acquire the key.
constexpr std::chrono::seconds longest_series{2};

std::uint64_t counter_of(const fence& token) {
    std::uint64_t value = 0;
    const auto digits = token.str();
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
}

}  // namespace

wait_queue::wait_queue() {
    fork_guard::add(*this);
}

wait_queue::~wait_queue() {
    fork_guard::remove(*this);
}

void wait_queue::after_fork_in_child() {
    queues_.clear();
    holds_.fill(std::nullopt);
    mutex_.unlock();
}

std::pair<const std::string, wait_queue::queue>& wait_queue::join(std::string_view key,
                                                                  ticket* added) {
    const std::lock_guard guard(mutex_);
    auto& key_queue = *queues_.try_emplace(std::string(key)).first;
    key_queue.second.tickets.push_back(added);
    return key_queue;
}

wait_queue::ticket::ticket(wait_queue& waiters, std::string_view key)
    : waiters_(waiters), process_(fork_generation()), queue_(waiters.join(key, this)) {}

wait_queue::ticket::~ticket() {
    // In a forked child the queue was removed.
    if (process_ != fork_generation()) return;
    const std::lock_guard guard(waiters_.mutex_);
    auto& [key, key_queue] = queue_;
    const bool was_first = is_first();
    std::erase(key_queue.tickets, this);
    if (key_queue.tickets.empty()) {
        waiters_.queues_.erase(waiters_.queues_.find(key));
    } else if (was_first) {
        key_queue.first_is_asking = true;
        key_queue.tickets.front()->head_changed_.notify_one();
    }
}

bool wait_queue::ticket::wait_until_first(steady_clock::time_point until,
                                          const std::stop_token& stop) {
    if (process_ != fork_generation()) return true;
    std::unique_lock guard(waiters_.mutex_);
    return head_changed_.wait_until(guard, stop, until, [this] { return is_first(); });
}

bool wait_queue::ticket::wait_until_may_ask(steady_clock::time_point until,
                                            const std::stop_token& stop) {
    if (process_ != fork_generation()) return true;
    std::unique_lock guard(waiters_.mutex_);
    if (!queue_.second.first_is_asking) return true;
    return head_changed_.wait_until(guard, stop, until, [this] { return is_first(); });
}

void wait_queue::ticket::set_asking(bool is_asking) {
    if (process_ != fork_generation()) return;
    const std::lock_guard guard(waiters_.mutex_);
    if (is_first()) queue_.second.first_is_asking = is_asking;
}

wait_queue::hold* wait_queue::find_hold(std::string_view key) {
    const auto hash = std::hash<std::string_view>()(key);
    auto& entry = holds_.at(hash % holds_.size());
    return entry && entry->key_hash == hash ? &*entry : nullptr;
}

void wait_queue::granted(std::string_view key, const fence& token, bool found_locked,
                         steady_clock::time_point now) {
    const std::lock_guard guard(mutex_);
    const auto hash = std::hash<std::string_view>()(key);
    const auto* const former = find_hold(key);
    hold latest{.key_hash = hash, .counter = counter_of(token), .granted_at = now};
    latest.is_contended = former == nullptr ? found_locked : latest.counter > former->counter + 1;
    const bool goes_on =
        former != nullptr && former->released_at && now - *former->released_at < longest_yield;
    latest.series_began = goes_on ? former->series_began : now;
    holds_.at(hash % holds_.size()) = latest;
    has_holds_ = true;
}

void wait_queue::released(std::string_view key, steady_clock::time_point now) {
    if (!has_holds_) return;
    const std::lock_guard guard(mutex_);
    if (auto* const latest = find_hold(key)) latest->released_at = now;
}

steady_clock::time_point wait_queue::yields_until(std::string_view key) {
    const std::lock_guard guard(mutex_);
    const auto* const latest = find_hold(key);
    if (latest == nullptr || !latest->released_at) return {};
    const auto at = *latest->released_at;
    if (latest->is_contended) {
        return at + std::clamp<steady_clock::duration>(at - latest->granted_at, shortest_yield,
                                                       longest_yield);
    }
    return at - latest->series_began >= longest_series ? at + longest_yield : at;
}

}  // namespace syncguard
