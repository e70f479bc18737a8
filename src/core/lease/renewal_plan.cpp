#include "core/lease/renewal_plan.hpp"

#include <algorithm>

namespace syncguard {

using std::chrono::seconds;

lease_clock::time_point renewal_time(lease_clock::time_point renewed_at,
                                     lease_clock::time_point deadline) noexcept {
    constexpr lease_clock::duration coarsest_grid = milliseconds{500};
    const auto span = deadline - renewed_at;
    const auto exact = renewed_at + span / 3;
    // Small compared to a third of the span, so that rounding down never makes a renewal due
    // immediately after the previous one.
    const auto grid = std::min(span / 60, coarsest_grid);
    if (grid <= lease_clock::duration::zero()) return exact;
    return exact - exact.time_since_epoch() % grid;
}

milliseconds renewal_retry_pause(milliseconds span) noexcept {
    return std::clamp<milliseconds>(span / 20, milliseconds{10}, seconds{1});
}

milliseconds renewal_timeout(milliseconds span) noexcept {
    return std::clamp<milliseconds>(span / 5, milliseconds{10}, seconds{5});
}

renewal_step next_step(const renewal_plan& plan, lease_clock::time_point now) noexcept {
    using enum renewal_step::kind;
    if (now >= plan.deadline) return {give_up, plan.deadline};
    if (!plan.is_renewed || plan.renewal_under_way) return {wait, plan.deadline};
    const auto renew_at =
        std::max(renewal_time(plan.renewed_at, plan.deadline), plan.retry_not_before);
    if (now >= renew_at) return {renew, plan.deadline};
    return {wait, std::min(renew_at, plan.deadline)};
}

}  // namespace syncguard
