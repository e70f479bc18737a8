#include "cli/termination_schedule.hpp"

#include <algorithm>

namespace syncguard::cli {

namespace {

using std::chrono::seconds;

/// The maximum time between SIGTERM and the deadline: more is not needed to clean up.
constexpr milliseconds longest_warning = seconds{10};
/// The maximum time between SIGKILL and the deadline: SIGKILL takes effect much faster.
constexpr milliseconds longest_kill_lead = seconds{1};
constexpr milliseconds longest_grace_after_loss = seconds{2};

milliseconds warning(milliseconds ttl) noexcept {
    return std::min(ttl / 4, longest_warning);
}

milliseconds kill_lead(milliseconds ttl) noexcept {
    return std::min(ttl / 10, longest_kill_lead);
}

}  // namespace

termination_schedule schedule_termination(lease_clock::time_point deadline,
                                          milliseconds ttl) noexcept {
    return {.terminate_at = deadline - warning(ttl), .kill_at = deadline - kill_lead(ttl)};
}

lease_clock::time_point kill_time_after_loss(lease_clock::time_point now,
                                             lease_clock::time_point deadline,
                                             milliseconds ttl) noexcept {
    const auto grace = std::min(ttl / 5, longest_grace_after_loss);
    return std::min<lease_clock::time_point>(now + grace,
                                             schedule_termination(deadline, ttl).kill_at);
}

}  // namespace syncguard::cli
