/// When a lock expires: to the millisecond, and at the same time for every operation.
#include "contract/contract.hpp"

namespace syncguard::test {
namespace {

SYNCGUARD_CONTRACT(expiry);

TEST_P(expiry, a_lock_is_live_for_its_ttl_and_the_grace_to_the_millisecond) {
    const auto id = take("k", 10s);
    fixture_->advance(10s + fixture_->grace() - 1ms);
    EXPECT_TRUE(is_locked("k"));
    EXPECT_TRUE(lookup_key("k"));
    EXPECT_TRUE(lookup_id(id));
    EXPECT_FALSE(acquire("k"));

    fixture_->advance(1ms);
    EXPECT_FALSE(is_locked("k"));
    EXPECT_FALSE(lookup_key("k"));
    EXPECT_FALSE(lookup_id(id));
    EXPECT_TRUE(acquire("k"));
}

TEST_P(expiry, an_expired_lock_is_not_released) {
    const auto id = take("k", 10s);
    fixture_->advance(10s + fixture_->grace());
    EXPECT_FALSE(release(id).ok);
}

TEST_P(expiry, an_expired_lock_is_never_revived) {
    const auto id = take("k", 10s);
    fixture_->advance(10s + fixture_->grace());
    EXPECT_FALSE(extend(id, 60s).ok);
    EXPECT_FALSE(is_locked("k"));
    EXPECT_FALSE(extend(id, 60s).ok);
}

TEST_P(expiry, within_the_grace_the_owner_may_still_extend_and_release) {
    const auto first = take("a", 10s);
    const auto second = take("b", 10s);
    fixture_->advance(10s + fixture_->grace() - 1ms);
    const auto extended = extend(first, 5s);
    ASSERT_TRUE(extended.ok);
    EXPECT_EQ(extended.expires_at, fixture_->now() + 5s);
    EXPECT_TRUE(release(second).ok);
}

TEST_P(expiry, after_a_takeover_the_former_owner_cannot_extend_or_release) {
    const auto former = take("k", 10s);
    fixture_->advance(10s + fixture_->grace());
    const auto owner = take("k", 10s);

    EXPECT_FALSE(extend(former, 60s).ok);
    EXPECT_FALSE(release(former).ok);
    EXPECT_FALSE(lookup_id(former));
    EXPECT_TRUE(lookup_id(owner));
    EXPECT_TRUE(release(owner).ok);
}

TEST_P(expiry, extending_in_time_keeps_the_lock_for_ever) {
    const auto id = take("k", 10s);
    for (int i = 0; i < 10; ++i) {
        fixture_->advance(9s);
        ASSERT_TRUE(extend(id, 10s).ok);
        ASSERT_FALSE(acquire("k"));
    }
}

/// A lease of a millisecond may expire before its answer arrives; the call then fails.
TEST_P(expiry, the_shortest_ttl_is_granted_and_expires_at_once) {
    try {
        auto brief = acquire("brief", 1ms);
        ASSERT_TRUE(brief);
        EXPECT_EQ(brief->expires_at(), fixture_->now() + 1ms);
        brief->detach();
    } catch (const lock_error& failure) {
        EXPECT_EQ(failure.code(), error_code::network_timeout) << failure.what();
    }
    fixture_->advance(1ms + fixture_->grace());
    EXPECT_FALSE(is_locked("brief"));
}

TEST_P(expiry, the_longest_ttl_is_kept_exactly) {
    auto endless = acquire("endless", max_ttl);
    ASSERT_TRUE(endless);
    EXPECT_EQ(endless->expires_at(), fixture_->now() + max_ttl);
}

TEST_P(expiry, many_expired_locks_do_not_hinder_new_ones) {
    for (int i = 0; i < 200; ++i)
        take("old:" + std::to_string(i), 1s);
    fixture_->advance(1h);
    for (int i = 0; i < 200; ++i)
        EXPECT_TRUE(acquire("old:" + std::to_string(i), 1s));
}

}  // namespace
}  // namespace syncguard::test
