#include "firestore/lock_rules.hpp"

#include "core/fence_limits.hpp"

#include <syncguard/error.hpp>
#include <syncguard/key.hpp>

#include <algorithm>
#include <charconv>

namespace syncguard::firestore {

namespace {

/// In addition to the tolerance, for extensions that are in flight.
constexpr milliseconds cleanup_guard{1'000};

}  // namespace

std::uint64_t counter_of(const fence& token) {
    std::uint64_t value = 0;
    const auto digits = token.str();
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
}

bool is_lock_of(const lock_record& lock, std::string_view key) {
    if (lock.key == key) return true;
    try {
        return normalize_and_validate_key(lock.key) == key;
    } catch (const lock_error&) {
        return false;
    }
}

const lock_record* blocking_lock(const stored_pair& read, unix_time now) {
    for (const auto* const each : {&read.lock, &read.former_lock})
        if (*each && is_live((*each)->record.expires_at, now)) return &(*each)->record;
    return nullptr;
}

fence next_fence(const stored_pair& read) {
    std::uint64_t last = 0;
    for (const auto* const each : {&read.counter, &read.former_counter})
        if (*each) last = std::max(last, (*each)->value);
    // The counter may have been removed, or restored from a backup.
    for (const auto* const each : {&read.lock, &read.former_lock})
        if (*each) last = std::max(last, counter_of((*each)->record.fence));
    return checked_fence(last + 1);
}

milliseconds time_until_free(const lock_record& lock, unix_time now) {
    return std::max(lock.expires_at + time_tolerance - now, milliseconds{0});
}

std::optional<lock_record> grant_on(const stored_pair& read, const acquire_request& req,
                                    unix_time now) {
    if (blocking_lock(read, now) != nullptr) return std::nullopt;
    return lock_record{.key = std::string(req.key),
                       .id = req.id,
                       .expires_at = now + req.ttl,
                       .acquired_at = now,
                       .fence = next_fence(read)};
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
