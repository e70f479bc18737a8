#include "postgres/release_listener.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace syncguard::postgres {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

/// Each flag takes an entry of the server's lock table, which all its clients share and which has
/// room for 64 locks of each session by default (`max_locks_per_transaction`). If every session
/// took this many flags, half of the table would remain free.
constexpr std::size_t most_keys = 32;

/// A lock that goes from hand to hand is waited for again in a moment.
constexpr auto flags_stay_up = 1s;

/// How long the server may take to answer a statement of the lookout.
constexpr auto longest_answer = 5s;

/// Limits of the pause before the next attempt to raise a flag. The pause is as long as the time
/// since the first refusal.
constexpr auto shortest_pause = 10ms;
constexpr auto longest_pause = 1s;

constexpr auto pause_after_a_loss = 100ms;
constexpr auto pause_after_a_refusal = 5s;
/// The way to the server is not likely to change.
constexpr auto pause_behind_a_pooler = 1h;

}  // namespace

lookout::prospect lookout::watch(const std::string& key, time_point since) {
    const auto now = steady_clock::now();
    if (now < deaf_until_) return prospect::cannot_be_told;
    auto found = keys_.find(key);
    if (found == keys_.end()) {
        if (keys_.size() >= most_keys) return prospect::cannot_be_told;
        found = keys_.try_emplace(key).first;
    }
    watched& what = found->second;
    what.last_wanted = now;
    next_tidying_ = std::min<time_point>(next_tidying_, now + flags_stay_up);
    return what.last_news >= since ? prospect::look_again : prospect::will_be_told;
}

void lookout::step(time_point now) {
    if (busy_since_ && now >= *busy_since_ + longest_answer) {
        lose_connection();
        return;
    }
    if (needs_connection(now)) wire_ = told_.connection_for_lookout();
    if (!wire_ || busy_since_ || !told_.connection_is_free()) return;
    try {
        send_changes(now);
    } catch (const std::bad_alloc&) {
        // Some flag may be up that nobody remembers.
        lose_connection();
        throw;
    }
}

bool lookout::needs_connection(time_point now) const {
    return !wire_ && !keys_.empty() && now >= connect_not_before_;
}

/// After a step. A connection that is made or becomes free is an event of its own.
lookout::time_point lookout::next_wakeup(time_point now) const {
    if (busy_since_) return *busy_since_ + longest_answer;
    if (!wire_) {
        return keys_.empty() || now >= connect_not_before_ ? time_point::max()
                                                           : connect_not_before_;
    }
    if (!told_.connection_is_free()) return time_point::max();
    auto next = next_tidying_;
    for (const auto& [key, what] : keys_) {
        if (what.refused_since) next = std::min(next, what.ask_not_before);
    }
    return next;
}

void lookout::send_changes(time_point now) {
    if (!trusted_) {
        send({{&sql_.who_serves, {}}}, now);
        return;
    }
    text_list raised;
    for (auto& [key, what] : keys_) {
        what.is_asked_for = !what.is_flagged && now >= what.ask_not_before;
        if (what.is_asked_for) raised.add(key);
    }
    transaction changes;
    if (now >= next_tidying_) {
        const text_list lowered = take_unwanted(now);
        if (!lowered.empty()) changes.push_back({&sql_.lower_flags, {lowered.text()}});
        // Nobody will be there to read, and what is not read the server cannot forget.
        if (keys_.empty()) changes.push_back({&sql_.unlisten, {}});
    }
    if (!raised.empty()) {
        changes.push_back({&sql_.listen, {}});
        changes.push_back({&sql_.raise_flags, {raised.text()}});
    }
    if (!changes.empty()) send(changes, now);
}

void lookout::send(const transaction& what, time_point now) {
    busy_since_ = now;
    wire_->send(what, false);
}

/// Nobody waits for these any more.
text_list lookout::take_unwanted(time_point now) {
    text_list unwanted;
    next_tidying_ = time_point::max();
    for (auto each = keys_.begin(); each != keys_.end();) {
        watched& what = each->second;
        if (told_.still_awaits(each->first)) what.last_wanted = now;
        if (!what.is_asked_for && now >= what.last_wanted + flags_stay_up) {
            if (what.is_flagged) unwanted.add(each->first);
            each = keys_.erase(each);
            continue;
        }
        next_tidying_ = std::min<time_point>(next_tidying_, now + flags_stay_up);
        ++each;
    }
    return unwanted;
}

void lookout::on_reply(const row_list& rows) {
    busy_since_.reset();
    if (!trusted_) {
        // A pooler changes the session under its clients: nothing would be heard, and the flags
        // would stay. Once, it may have chosen the same one by chance.
        const bool is_same_session =
            rows.size() == 1 && rows[0].size() == 1 && rows[0][0] == wire_->server_process();
        trusted_ = std::exchange(was_same_session_, is_same_session) && is_same_session;
        if (!is_same_session) be_deaf_for(pause_behind_a_pooler);
        return;
    }
    auto answer = rows.begin();
    for (auto& [key, what] : keys_) {
        if (!std::exchange(what.is_asked_for, false)) continue;
        if (answer == rows.end()) {
            be_deaf_for(pause_after_a_refusal);  // An unexpected answer.
            return;
        }
        take_flag(key, what, *answer++);
    }
}

void lookout::take_flag(const std::string& key, watched& what, const row& answer) {
    const auto now = steady_clock::now();
    const bool is_known = answer.size() == 2 && answer[0];
    what.is_flagged = is_known && answer[1] == "t";
    // From now on notifications of the key arrive: while another role holds the flag in exclusive
    // mode, every release of the key notifies.
    if (is_known && (what.is_flagged || what.number.empty())) {
        what.number = *answer[0];
        what.last_news = now;
        told_.look_again(key);
    }
    if (what.is_flagged) {
        what.refused_since.reset();
        return;
    }
    if (!what.refused_since) what.refused_since = now;
    what.ask_not_before = now + std::clamp<steady_clock::duration>(now - *what.refused_since,
                                                                   shortest_pause, longest_pause);
}

void lookout::on_refused() {
    be_deaf_for(pause_after_a_refusal);
}

void lookout::on_closed() {
    if (trusted_) {
        lose_connection();
    } else {
        be_deaf_for(pause_after_a_refusal);
    }
}

void lookout::on_notification(const std::string& number) {
    for (auto& [key, what] : keys_) {
        if (what.number != number) continue;
        what.last_news = steady_clock::now();
        told_.look_again(key);
    }
}

void lookout::lower_all() {
    be_deaf_for(pause_after_a_refusal);
}

void lookout::look_again_at_all() {
    for (auto& [key, what] : keys_) {
        what.last_news = steady_clock::now();
        told_.look_again(key);
    }
}

void lookout::lose_connection() {
    hang_up();
    connect_not_before_ = steady_clock::now() + pause_after_a_loss;
    told_.look_again_at_everything();
}

void lookout::be_deaf_for(std::chrono::milliseconds pause) {
    hang_up();
    deaf_until_ = steady_clock::now() + pause;
    told_.expect_nothing();
}

void lookout::hang_up() noexcept {
    if (wire_) wire_->close();
    wire_.reset();
    trusted_ = false;
    was_same_session_ = false;
    busy_since_.reset();
    keys_.clear();
    next_tidying_ = time_point::max();
}

}  // namespace syncguard::postgres
