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

/// For so long a client that knows of no other clients may acquire a key again and again. After
/// that it pauses once, so that waiting clients can acquire the key.
constexpr std::chrono::seconds longest_series{2};

std::uint64_t counter_of(const fence& token) {
    std::uint64_t value = 0;
    const auto digits = token.str();
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
}

}  // namespace

waiting_line::waiting_line() {
    fork_guard::add(*this);
}

waiting_line::~waiting_line() {
    fork_guard::remove(*this);
}

void waiting_line::after_fork_in_child() {
    queues_.clear();
    holds_.fill(std::nullopt);
    mutex_.unlock();
}

std::pair<const std::string, waiting_line::queue>& waiting_line::join(std::string_view key,
                                                                      place* newcomer) {
    const std::lock_guard guard(mutex_);
    auto& line = *queues_.try_emplace(std::string(key)).first;
    line.second.places.push_back(newcomer);
    return line;
}

waiting_line::place::place(waiting_line& line, std::string_view key)
    : line_(line), process_(fork_generation()), queue_(line.join(key, this)) {}

waiting_line::place::~place() {
    // In a child of the thread that waits, there is no line any more.
    if (process_ != fork_generation()) return;
    const std::lock_guard guard(line_.mutex_);
    auto& [key, line] = queue_;
    const bool was_first = is_first();
    std::erase(line.places, this);
    if (line.places.empty()) {
        line_.queues_.erase(line_.queues_.find(key));
    } else if (was_first) {
        line.first_is_asking = true;
        line.places.front()->moved_up_.notify_one();
    }
}

bool waiting_line::place::is_first_by(steady_clock::time_point until, const std::stop_token& stop) {
    if (process_ != fork_generation()) return true;
    std::unique_lock guard(line_.mutex_);
    return moved_up_.wait_until(guard, stop, until, [this] { return is_first(); });
}

bool waiting_line::place::may_ask_by(steady_clock::time_point until, const std::stop_token& stop) {
    if (process_ != fork_generation()) return true;
    std::unique_lock guard(line_.mutex_);
    if (!queue_.second.first_is_asking) return true;
    return moved_up_.wait_until(guard, stop, until, [this] { return is_first(); });
}

void waiting_line::place::set_asking(bool is_asking) {
    if (process_ != fork_generation()) return;
    const std::lock_guard guard(line_.mutex_);
    if (is_first()) queue_.second.first_is_asking = is_asking;
}

waiting_line::hold* waiting_line::find_hold(std::string_view key) {
    const auto hash = std::hash<std::string_view>()(key);
    auto& entry = holds_.at(hash % holds_.size());
    return entry && entry->key_hash == hash ? &*entry : nullptr;
}

void waiting_line::granted(std::string_view key, const fence& token, bool found_locked,
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

void waiting_line::released(std::string_view key, steady_clock::time_point now) {
    if (!has_holds_) return;
    const std::lock_guard guard(mutex_);
    if (auto* const latest = find_hold(key)) latest->released_at = now;
}

steady_clock::time_point waiting_line::yields_until(std::string_view key) {
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
