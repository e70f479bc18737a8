/// When a lease is renewed, and when it counts as lost.
#include "core/lease/renewal_plan.hpp"

#include <syncguard/options.hpp>

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;
using enum renewal_step::kind;

const lease_clock::time_point granted{1000s};

constexpr std::array<milliseconds, 7> all_ttls{1ms, 2ms, 50ms, 600ms, 30s, 1h, max_ttl};

TEST(renewal_plan_test, renews_at_a_third_of_the_time_or_a_little_before) {
    EXPECT_EQ(renewal_time(granted, granted + 30s), granted + 10s);
    EXPECT_EQ(renewal_time(granted, granted + 600ms), granted + 200ms);
    for (const milliseconds ttl : all_ttls) {
        for (const auto shift : {0ns, 1ns, 123'456'789ns}) {
            const auto renewed = granted + shift;
            const auto third = renewed + lease_clock::duration(ttl) / 3;
            const auto at = renewal_time(renewed, renewed + ttl);
            EXPECT_LE(at, third) << ttl.count();
            EXPECT_GT(at, third - lease_clock::duration(ttl) / 60) << ttl.count();
            EXPECT_GT(at, renewed) << ttl.count();
        }
    }
}

TEST(renewal_plan_test, leases_of_about_the_same_age_are_renewed_together) {
    std::set<lease_clock::time_point> times;
    for (int i = 0; i < 1000; ++i)
        times.insert(renewal_time(granted + i * 1ms, granted + 30s + i * 1ms));
    EXPECT_EQ(times.size(), 2U);
}

TEST(renewal_plan_test, two_renewals_that_hang_leave_time_for_a_third) {
    for (const milliseconds ttl : {200ms, 3'000ms, 30'000ms}) {
        EXPECT_LT(ttl / 3 + 2 * (renewal_timeout(ttl) + renewal_retry_pause(ttl)),
                  ttl - renewal_timeout(ttl) / 2)
            << ttl.count();
    }
}

TEST(renewal_plan_test, a_lease_that_is_only_watched_waits_for_its_deadline) {
    const renewal_plan plan{.renewed_at = granted, .deadline = granted + 30s};
    const auto step = next_step(plan, granted);
    EXPECT_EQ(step.action, wait);
    EXPECT_EQ(step.until, granted + 30s);
    EXPECT_EQ(next_step(plan, granted + 30s - 1ns).action, wait);
    EXPECT_EQ(next_step(plan, granted + 30s).action, give_up);
}

TEST(renewal_plan_test, a_renewed_lease_waits_for_its_renewal_then_for_its_deadline) {
    renewal_plan plan{.renewed_at = granted, .deadline = granted + 30s, .is_renewed = true};
    EXPECT_EQ(next_step(plan, granted).action, wait);
    EXPECT_EQ(next_step(plan, granted).until, granted + 10s);
    const auto renewal = next_step(plan, granted + 10s);
    EXPECT_EQ(renewal.action, renew);
    EXPECT_EQ(renewal.until, granted + 30s);
    plan.renewal_under_way = true;
    EXPECT_EQ(next_step(plan, granted + 10s).action, wait);
    EXPECT_EQ(next_step(plan, granted + 10s).until, granted + 30s);
    EXPECT_EQ(next_step(plan, granted + 30s).action, give_up);
}

TEST(renewal_plan_test, after_a_failure_the_pause_never_exceeds_the_deadline) {
    renewal_plan plan{.renewed_at = granted,
                      .deadline = granted + 30s,
                      .is_renewed = true,
                      .retry_not_before = granted + 12s};
    EXPECT_EQ(next_step(plan, granted + 11s).action, wait);
    EXPECT_EQ(next_step(plan, granted + 11s).until, granted + 12s);
    EXPECT_EQ(next_step(plan, granted + 12s).action, renew);
    plan.retry_not_before = granted + 31s;
    EXPECT_EQ(next_step(plan, granted + 12s).until, granted + 30s);
}

TEST(renewal_plan_test, a_wake_up_after_the_deadline_does_not_renew) {
    const renewal_plan plan{.renewed_at = granted, .deadline = granted + 30s, .is_renewed = true};
    EXPECT_EQ(next_step(plan, granted + 30s).action, give_up);
    EXPECT_EQ(next_step(plan, granted + 1h).action, give_up);
}

TEST(renewal_plan_test, an_earlier_deadline_makes_the_renewal_earlier) {
    // As by an extension with a shorter TTL.
    const renewal_plan plan{.renewed_at = granted, .deadline = granted + 3s, .is_renewed = true};
    EXPECT_EQ(next_step(plan, granted).until, granted + 1s);
    EXPECT_EQ(next_step(plan, granted + 1s).action, renew);
}

TEST(renewal_plan_test, a_deadline_before_the_last_renewal_means_loss) {
    const renewal_plan plan{.renewed_at = granted, .deadline = granted - 1ns, .is_renewed = true};
    EXPECT_EQ(next_step(plan, granted).action, give_up);
}

}  // namespace
}  // namespace syncguard::test
