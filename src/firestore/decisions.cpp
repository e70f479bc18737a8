#include "decisions.hpp"

#include "../core/fence_limits.hpp"

#include <algorithm>
#include <charconv>

namespace syncguard::firestore {

namespace {

/// On top of the tolerance, for extensions that are under way.
constexpr milliseconds cleanup_guard{1'000};

}  // namespace

std::uint64_t counter_of(const fence& token) {
    std::uint64_t value = 0;
    const auto digits = token.str();
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
}

milliseconds time_until_free(const lock_record& lock, unix_time now) {
    return std::max(lock.expires_at + time_tolerance - now, milliseconds{0});
}

std::optional<lock_record> grant_on(const stored_pair& read, const acquire_request& what,
                                    unix_time now) {
    if (read.lock && is_live(read.lock->record.expires_at, now)) return std::nullopt;
    // The lock that ended may know better than a counter that somebody removed or restored.
    std::uint64_t last = read.counter ? read.counter->value : 0;
    if (read.lock) last = std::max(last, counter_of(read.lock->record.fence));
    return lock_record{.key = std::string(what.key),
                       .id = what.id,
                       .expires_at = now + what.ttl,
                       .acquired_at = now,
                       .fence = checked_fence(last + 1)};
}

owned_lock choose_owned(const std::vector<stored_lock>& found, const lock_id& id, unix_time now) {
    owned_lock chosen{.reason = failure_reason::not_found};
    for (const auto& each : found) {
        if (each.record.id != id) continue;
        if (!is_live(each.record.expires_at, now)) {
            chosen.reason = failure_reason::expired;
        } else if (chosen.lock != nullptr) {
            chosen.is_ambiguous = true;
        } else {
            chosen.lock = &each;
        }
    }
    return chosen;
}

bool may_be_cleaned_up(const lock_record& lock, unix_time now) {
    return now - lock.expires_at > time_tolerance + cleanup_guard;
}

}  // namespace syncguard::firestore
