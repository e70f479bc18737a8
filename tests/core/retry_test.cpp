#include <syncguard/retry.hpp>

#include <gtest/gtest.h>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;

TEST(retry, the_defaults_are_the_specified_ones) {
    const retry_policy policy;
    EXPECT_EQ(policy.max_retries, 10U);
    EXPECT_EQ(policy.retry_delay, 100ms);
    EXPECT_EQ(policy.backoff, backoff::exponential);
    EXPECT_EQ(policy.jitter, jitter::equal);
}

TEST(retry, exponential_backoff_doubles) {
    const retry_policy policy{.jitter = jitter::none};
    EXPECT_EQ(retry_pause(policy, 1, 0.5, 1h), 100ms);
    EXPECT_EQ(retry_pause(policy, 2, 0.5, 1h), 200ms);
    EXPECT_EQ(retry_pause(policy, 3, 0.5, 1h), 400ms);
    EXPECT_EQ(retry_pause(policy, 10, 0.5, 1h), 51'200ms);
}

TEST(retry, fixed_backoff_is_constant) {
    const retry_policy policy{.backoff = backoff::fixed, .jitter = jitter::none};
    EXPECT_EQ(retry_pause(policy, 1, 0.5, 1h), 100ms);
    EXPECT_EQ(retry_pause(policy, 9, 0.5, 1h), 100ms);
}

TEST(retry, equal_jitter_subtracts_at_most_half) {
    const retry_policy policy{.jitter = jitter::equal};
    EXPECT_EQ(retry_pause(policy, 1, 0.0, 1h), 50ms);
    EXPECT_EQ(retry_pause(policy, 1, 0.5, 1h), 75ms);
    EXPECT_EQ(retry_pause(policy, 1, 0.9999, 1h), 99ms);
}

TEST(retry, full_jitter_subtracts_any_part) {
    const retry_policy policy{.jitter = jitter::full};
    EXPECT_EQ(retry_pause(policy, 1, 0.0, 1h), 0ms);
    EXPECT_EQ(retry_pause(policy, 1, 0.5, 1h), 50ms);
}

TEST(retry, no_pause_exceeds_the_deadline) {
    const retry_policy policy{.jitter = jitter::none};
    EXPECT_EQ(retry_pause(policy, 5, 0.5, 30ms), 30ms);
    EXPECT_EQ(retry_pause(policy, 5, 0.5, 0ms), 0ms);
    EXPECT_EQ(retry_pause(policy, 5, 0.5, -5ms), 0ms);
}

TEST(retry, the_longest_pause_can_be_bounded) {
    const retry_policy policy{.jitter = jitter::none, .max_delay = 250ms};
    EXPECT_EQ(retry_pause(policy, 1, 0.5, 1h), 100ms);
    EXPECT_EQ(retry_pause(policy, 8, 0.5, 1h), 250ms);
}

TEST(retry, endless_retries_do_not_overflow) {
    const retry_policy policy{.jitter = jitter::none};
    EXPECT_EQ(retry_pause(policy, 4'000'000'000U, 0.5, 1h), 1h);
    EXPECT_EQ(retry_pause(policy, 4'000'000'000U, 0.5, milliseconds::max()), milliseconds::max());
}

}  // namespace
}  // namespace syncguard::test
