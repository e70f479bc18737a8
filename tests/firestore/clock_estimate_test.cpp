/// What the dates of a server's answers, in whole seconds, prove about its clock.
#include "firestore/clock_estimate.hpp"

#include <gtest/gtest.h>

namespace syncguard::firestore {
namespace {

using namespace std::chrono_literals;

std::chrono::sys_seconds second(std::int64_t number) {
    return std::chrono::sys_seconds(std::chrono::seconds(number));
}

unix_time at_ms(std::int64_t ms) {
    return unix_time(milliseconds(ms));
}

TEST(the_clocks, are_not_proven_apart_by_truncated_milliseconds) {
    clock_estimate clocks;
    EXPECT_FALSE(clocks.value());
    clocks.add(second(100), at_ms(100'900), at_ms(100'950));
    EXPECT_EQ(clocks.value()->proven(), 0ms);
}

TEST(the_clocks, are_proven_apart_by_a_difference_beyond_truncation_and_round_trip) {
    clock_estimate ahead;
    ahead.add(second(101), at_ms(100'200), at_ms(100'300));
    EXPECT_EQ(ahead.value()->proven(), 700ms);
    clock_estimate behind;
    behind.add(second(99), at_ms(100'600), at_ms(100'700));
    EXPECT_EQ(behind.value()->proven(), 601ms);
}

TEST(the_clocks, are_known_more_closely_with_each_answer) {
    clock_estimate clocks;
    // The server is 300 ms ahead.
    for (std::int64_t ms = 100'000; ms < 102'000; ms += 20)
        clocks.add(second((ms + 310) / 1000), at_ms(ms), at_ms(ms + 20));
    EXPECT_LE(clocks.value()->at_most - clocks.value()->at_least, 45ms);
    EXPECT_LE(clocks.value()->at_least, 300ms);
    EXPECT_GE(clocks.value()->at_most, 300ms);
    EXPECT_GE(clocks.value()->proven(), 250ms);
}

TEST(the_clocks, are_known_twice_as_closely_after_an_answer_at_the_best_moment) {
    for (const std::int64_t ahead : {-700, -50, 0, 50, 700}) {
        for (std::int64_t first = 100'000; first < 101'000; first += 70) {
            SCOPED_TRACE(std::to_string(ahead) + " ms, asked at " + std::to_string(first));
            clock_estimate clocks;
            const auto ask_at = [&](std::int64_t now) {
                clocks.add(second((now + ahead) / 1000), at_ms(now), at_ms(now));
                return clocks.value()->at_most - clocks.value()->at_least;
            };
            auto now = first;
            for (auto width = ask_at(now); width > 16ms;) {
                const auto pause = pause_before_question(*clocks.value(), at_ms(now));
                EXPECT_GE(pause, 0ms);
                EXPECT_LT(pause, 1s);
                now += pause.count();
                const auto next_width = ask_at(now);
                EXPECT_LE(next_width, width / 2 + 3ms);
                width = next_width;
            }
        }
    }
}

TEST(the_clocks, are_estimated_anew_when_one_was_set) {
    clock_estimate clocks;
    clocks.add(second(101), at_ms(100'200), at_ms(100'300));
    clocks.add(second(105), at_ms(105'900), at_ms(105'950));
    EXPECT_EQ(clocks.value()->proven(), 0ms);
}

TEST(the_clocks, are_confirmed_apart_by_two_answers_in_a_row) {
    clock_estimate clocks;
    const auto answer = [&](std::int64_t date, std::int64_t at) {
        clocks.add(second(date), at_ms(at), at_ms(at + 20));
    };
    answer(100, 100'500);
    answer(160, 100'600);
    EXPECT_GE(clocks.value()->proven(), 58s);
    EXPECT_EQ(clocks.confirmed(), 0ms) << "only one answer says so";
    answer(100, 100'700);
    EXPECT_EQ(clocks.confirmed(), 0ms);
    answer(160, 100'800);
    EXPECT_EQ(clocks.confirmed(), 0ms) << "the two were not in a row";
    answer(160, 100'900);
    EXPECT_GE(clocks.confirmed(), 58s);
    answer(40, 101'000);
    EXPECT_EQ(clocks.confirmed(), 0ms) << "the two contradict each other";
}

/// Adds an answer, which took 20 ms, of a server whose clock is this far ahead.
void hear(clock_estimate& clocks, std::int64_t at, std::int64_t ahead) {
    clocks.add(second((at + ahead + 10) / 1000), at_ms(at), at_ms(at + 20));
}

TEST(the_clocks, stay_known_while_answers_arrive_occasionally) {
    clock_estimate clocks;
    std::int64_t at = 1'000'000;
    for (; at < 1'002'000; at += 20)
        hear(clocks, at, 600);
    for (; at < 1'002'000 + 3 * 3'600'000; at += 15'270) {
        hear(clocks, at, 600);
        ASSERT_GE(clocks.value()->proven(), skew_to_refuse) << at;
        ASSERT_LE(clocks.value()->proven(), 600ms) << at;
    }
}

TEST(the_clocks, are_followed_if_they_drift_apart) {
    clock_estimate clocks;
    // The clocks drift apart by 20 ms in ten minutes.
    const auto ahead = [](std::int64_t at) { return 600 + (at - 1'000'000) / 30'000; };
    for (std::int64_t at = 1'000'000; at < 4'600'000; at += 170) {
        hear(clocks, at, ahead(at));
        ASSERT_LE(clocks.value()->at_least.count(), ahead(at)) << at;
        ASSERT_GE(clocks.value()->at_most.count(), ahead(at)) << at;
        ASSERT_GE(clocks.value()->proven().count(), at < 1'100'000 ? 0 : ahead(at) - 60) << at;
    }
}

TEST(the_clocks, are_hardly_known_after_a_long_time_without_answers) {
    clock_estimate clocks;
    std::int64_t at = 1'000'000;
    for (; at < 1'002'000; at += 20)
        hear(clocks, at, 600);
    at += 24 * 3'600'000;
    hear(clocks, at, 0);
    EXPECT_LE(clocks.value()->at_least, 0ms);
    EXPECT_GE(clocks.value()->at_most, 0ms);
}

}  // namespace
}  // namespace syncguard::firestore
