/// When a command must end because its lock is not renewed.
#include "cli/termination_schedule.hpp"

#include "core/lease/renewal_plan.hpp"

#include <gtest/gtest.h>

namespace syncguard::cli {

namespace {

using namespace std::chrono_literals;

const lease_clock::time_point granted{1000s};

TEST(termination_schedule, kills_after_terminating_and_before_the_end_for_every_ttl) {
    for (const milliseconds ttl : {milliseconds{50}, milliseconds{500}, milliseconds{30s},
                                   milliseconds{1h}, milliseconds{24h * 365 * 100}}) {
        const auto schedule = schedule_termination(granted + ttl, ttl);
        EXPECT_LT(renewal_time(granted, granted + ttl), schedule.terminate_at) << ttl.count();
        EXPECT_LT(schedule.terminate_at, schedule.kill_at) << ttl.count();
        EXPECT_LT(schedule.kill_at, granted + ttl) << ttl.count();
    }
}

TEST(termination_schedule, leaves_time_for_a_second_renewal_when_the_first_hangs) {
    for (const milliseconds ttl : {milliseconds{200}, milliseconds{3s}, milliseconds{30s}}) {
        const auto schedule = schedule_termination(granted + ttl, ttl);
        EXPECT_LT(
            renewal_time(granted, granted + ttl) + renewal_timeout(ttl) + renewal_retry_pause(ttl),
            schedule.terminate_at)
            << ttl.count();
    }
}

TEST(termination_schedule, limits_the_time_before_the_end_of_a_long_lock) {
    const auto schedule = schedule_termination(granted + 1h, 1h);
    EXPECT_EQ(granted + 1h - 10s, schedule.terminate_at);
    EXPECT_EQ(granted + 1h - 1s, schedule.kill_at);
}

TEST(termination_schedule, after_a_loss_leaves_two_seconds_but_never_past_the_end_of_the_lock) {
    EXPECT_EQ(granted + 2s, kill_time_after_loss(granted, granted + 30s, 30s));
    EXPECT_EQ(granted + 29s, kill_time_after_loss(granted + 28s, granted + 30s, 30s));
    EXPECT_EQ(granted + 29s, kill_time_after_loss(granted + 40s, granted + 30s, 30s));
}

}  // namespace

}  // namespace syncguard::cli
