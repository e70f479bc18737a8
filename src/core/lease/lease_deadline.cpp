#include <syncguard/detail/lease_deadline.hpp>

#include <algorithm>
#include <chrono>

namespace syncguard::detail {

lease_clock::duration drift_margin(milliseconds ttl, double clock_drift) noexcept {
    constexpr lease_clock::duration rounding = milliseconds{2};
    const lease_clock::duration full_ttl = ttl;
    const auto drift = std::chrono::duration_cast<lease_clock::duration>(
        std::chrono::duration<double, lease_clock::period>(full_ttl) * clock_drift);
    return std::min(full_ttl / 2, drift + rounding);
}

lease_deadline::lease_deadline(time_point sent_at, milliseconds ttl, double clock_drift) noexcept
    : latest_{.sent_at = sent_at,
              .answered_at = sent_at,
              .ttl = ttl,
              .id = 0,
              .progress = state::acknowledged},
      renewed_at_(sent_at),
      clock_drift_(clock_drift) {}

lease_deadline::ticket lease_deadline::send(time_point now, milliseconds ttl) {
    others_.push_back(
        {.sent_at = now, .ttl = ttl, .id = next_ticket_, .progress = state::in_flight});
    return next_ticket_++;
}

void lease_deadline::acknowledge(ticket id, time_point now) noexcept {
    extension acknowledged = find(id);
    acknowledged.progress = state::acknowledged;
    acknowledged.answered_at = now;
    renewed_at_ = std::max(renewed_at_, acknowledged.sent_at);

    // An extension that was answered before this one was sent was executed before it, too.
    const auto is_superseded = [&](const extension& other) {
        const bool is_executed_before =
            other.progress == state::acknowledged || other.progress == state::failed;
        return is_executed_before && other.answered_at < acknowledged.sent_at;
    };
    const bool replaces_latest = is_superseded(latest_);
    if (replaces_latest) {
        latest_ = acknowledged;
    } else {
        find(id) = acknowledged;
    }
    std::erase_if(others_, [&](const extension& other) {
        return is_superseded(other) || (replaces_latest && other.id == id);
    });
}

void lease_deadline::mark_unknown(ticket id) noexcept {
    extension& entry = find(id);
    entry.progress = state::unknown;
    const extension failed = entry;
    // Of two unknown extensions, the one that was sent earlier with a TTL that is not longer bounds
    // the deadline at least as strictly. So a series of failed renewals needs one entry.
    const auto covers = [](const extension& stricter, const extension& other) {
        return stricter.progress == state::unknown && other.progress == state::unknown &&
               stricter.id < other.id && stricter.ttl <= other.ttl;
    };
    const bool is_covered =
        std::any_of(others_.begin(), others_.end(),
                    [&](const extension& other) { return covers(other, failed); });
    std::erase_if(others_, [&](const extension& other) {
        return is_covered ? other.id == failed.id : covers(failed, other);
    });
}

void lease_deadline::mark_failed(ticket id, time_point now) noexcept {
    extension& entry = find(id);
    entry.progress = state::failed;
    entry.answered_at = now;
    // Failed renewals need one entry: of extensions with the same TTL, the first one limits the
    // deadline, and until all of them are superseded.
    const auto same = std::find_if(others_.begin(), others_.end(), [&](const extension& other) {
        return other.progress == state::failed && other.ttl == entry.ttl && other.id != id;
    });
    if (same == others_.end()) return;
    same->sent_at = std::min(same->sent_at, entry.sent_at);
    same->answered_at = std::max(same->answered_at, now);
    std::erase_if(others_, [&](const extension& other) { return other.id == id; });
}

lease_deadline::time_point lease_deadline::deadline() const noexcept {
    auto earliest = end_if_last(latest_);
    for (const auto& candidate : others_)
        earliest = std::min(earliest, end_if_last(candidate));
    return earliest;
}

lease_deadline::time_point lease_deadline::end_if_last(const extension& candidate) const noexcept {
    return std::max(candidate.sent_at, renewed_at_) + candidate.ttl -
           drift_margin(candidate.ttl, clock_drift_);
}

lease_deadline::extension& lease_deadline::find(ticket id) noexcept {
    return *std::find_if(others_.begin(), others_.end(),
                         [&](const extension& each) { return each.id == id; });
}

}  // namespace syncguard::detail
