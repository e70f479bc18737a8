#include "postgres/release_listener.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace syncguard::postgres {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

/// Each interest marker takes an entry of the server's lock table, which all its clients share and
/// which has room for 64 locks of each session by default (`max_locks_per_transaction`). If every
/// session took this many markers, half of the table would remain free.
constexpr std::size_t max_keys = 32;

/// How long a marker outlives its last watcher: a contended lock is soon watched again.
constexpr auto interest_ttl = 1s;

/// How long the server may take to answer a statement of the listener.
constexpr auto reply_timeout = 5s;

/// Limits of the delay before the next attempt to add a marker. The pause is as long as the time
/// since the first refusal.
constexpr auto min_retry_delay = 10ms;
constexpr auto max_retry_delay = 1s;

constexpr auto delay_after_loss = 100ms;
constexpr auto delay_after_refusal = 5s;
/// Long, because the route to the server is not likely to change.
constexpr auto delay_behind_pooler = 1h;

}  // namespace

release_listener::watch_result release_listener::watch(const std::string& key, time_point since) {
    const auto now = steady_clock::now();
    if (now < disabled_until_) return watch_result::unavailable;
    auto found = keys_.find(key);
    if (found == keys_.end()) {
        if (keys_.size() >= max_keys) return watch_result::unavailable;
        found = keys_.try_emplace(key).first;
    }
    watched& entry = found->second;
    entry.last_wanted_at = now;
    next_sweep_ = std::min<time_point>(next_sweep_, now + interest_ttl);
    return entry.last_event_at >= since ? watch_result::retry_now : watch_result::watching;
}

void release_listener::run_once(time_point now) {
    if (sent_at_ && now >= *sent_at_ + reply_timeout) {
        lose_connection();
        return;
    }
    if (needs_connection(now)) conn_ = subscriber_.connection_for_listener();
    if (!conn_ || sent_at_ || !subscriber_.connection_is_free()) return;
    try {
        send_changes(now);
    } catch (const std::bad_alloc&) {
        // The server may hold a marker that is not recorded in `keys_`.
        lose_connection();
        throw;
    }
}

bool release_listener::needs_connection(time_point now) const {
    return !conn_ && !keys_.empty() && now >= next_connect_at_;
}

/// Called after `run_once`. A connection that is made or becomes free causes another `run_once` by
/// itself.
release_listener::time_point release_listener::next_wakeup(time_point now) const {
    if (sent_at_) return *sent_at_ + reply_timeout;
    if (!conn_) {
        return keys_.empty() || now >= next_connect_at_ ? time_point::max() : next_connect_at_;
    }
    if (!subscriber_.connection_is_free()) return time_point::max();
    auto next = next_sweep_;
    for (const auto& [key, entry] : keys_) {
        if (entry.refused_since) next = std::min(next, entry.retry_at);
    }
    return next;
}

void release_listener::send_changes(time_point now) {
    if (!session_verified_) {
        send({{&sql_.backend_pid, {}}}, now);
        return;
    }
    text_list added;
    for (auto& [key, entry] : keys_) {
        entry.is_pending = !entry.is_registered && now >= entry.retry_at;
        if (entry.is_pending) added.add(key);
    }
    transaction changes;
    if (now >= next_sweep_) {
        const text_list removed = remove_unwatched(now);
        if (!removed.empty()) changes.push_back({&sql_.remove_interest, {removed.text()}});
        // If the session did not read them, notifications would fill the server's queue.
        if (keys_.empty()) changes.push_back({&sql_.unlisten, {}});
    }
    if (!added.empty()) {
        changes.push_back({&sql_.listen, {}});
        changes.push_back({&sql_.add_interest, {added.text()}});
    }
    if (!changes.empty()) send(changes, now);
}

void release_listener::send(const transaction& statements, time_point now) {
    sent_at_ = now;
    conn_->send(statements, false);
}

/// Removes keys without watchers.
text_list release_listener::remove_unwatched(time_point now) {
    text_list removed;
    next_sweep_ = time_point::max();
    for (auto each = keys_.begin(); each != keys_.end();) {
        watched& entry = each->second;
        if (subscriber_.has_watchers(each->first)) entry.last_wanted_at = now;
        if (!entry.is_pending && now >= entry.last_wanted_at + interest_ttl) {
            if (entry.is_registered) removed.add(each->first);
            each = keys_.erase(each);
            continue;
        }
        next_sweep_ = std::min<time_point>(next_sweep_, now + interest_ttl);
        ++each;
    }
    return removed;
}

void release_listener::on_reply(const result_rows& rows) {
    sent_at_.reset();
    if (!session_verified_) {
        // Behind a pooler the session may change between transactions: notifications would be lost,
        // and markers would remain. Two checks, because the pooler may choose the same session once
        // by chance.
        const bool is_same_session =
            rows.size() == 1 && rows[0].size() == 1 && rows[0][0] == conn_->backend_pid();
        session_verified_ = std::exchange(was_same_session_, is_same_session) && is_same_session;
        if (!is_same_session) disable_for(delay_behind_pooler);
        return;
    }
    auto answer = rows.begin();
    for (auto& [key, entry] : keys_) {
        if (!std::exchange(entry.is_pending, false)) continue;
        if (answer == rows.end()) {
            disable_for(delay_after_refusal);  // An unexpected answer.
            return;
        }
        on_interest_reply(key, entry, *answer++);
    }
}

void release_listener::on_interest_reply(const std::string& key, watched& entry,
                                         const row& answer) {
    const auto now = steady_clock::now();
    const bool is_known = answer.size() == 2 && answer[0];
    entry.is_registered = is_known && answer[1] == "t";
    // From now on notifications of the key arrive: while another role holds the lock in exclusive
    // mode, every release of the key notifies.
    if (is_known && (entry.is_registered || entry.number.empty())) {
        entry.number = *answer[0];
        entry.last_event_at = now;
        subscriber_.on_released(key);
    }
    if (entry.is_registered) {
        entry.refused_since.reset();
        return;
    }
    if (!entry.refused_since) entry.refused_since = now;
    entry.retry_at = now + std::clamp<steady_clock::duration>(now - *entry.refused_since,
                                                              min_retry_delay, max_retry_delay);
}

void release_listener::on_refused() {
    disable_for(delay_after_refusal);
}

void release_listener::on_closed() {
    if (session_verified_) {
        lose_connection();
    } else {
        disable_for(delay_after_refusal);
    }
}

void release_listener::on_notification(const std::string& number) {
    for (auto& [key, entry] : keys_) {
        if (entry.number != number) continue;
        entry.last_event_at = steady_clock::now();
        subscriber_.on_released(key);
    }
}

void release_listener::remove_all_interest() {
    disable_for(delay_after_refusal);
}

void release_listener::recheck_all() {
    for (auto& [key, entry] : keys_) {
        entry.last_event_at = steady_clock::now();
        subscriber_.on_released(key);
    }
}

void release_listener::lose_connection() {
    disconnect();
    next_connect_at_ = steady_clock::now() + delay_after_loss;
    subscriber_.on_subscription_lost();
}

void release_listener::disable_for(std::chrono::milliseconds pause) {
    disconnect();
    disabled_until_ = steady_clock::now() + pause;
    subscriber_.on_unavailable();
}

void release_listener::disconnect() noexcept {
    if (conn_) conn_->close();
    conn_.reset();
    session_verified_ = false;
    was_same_session_ = false;
    sent_at_.reset();
    keys_.clear();
    next_sweep_ = time_point::max();
}

}  // namespace syncguard::postgres
