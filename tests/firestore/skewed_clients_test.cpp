/// Clients whose clocks differ.
#include "firestore/on_firestore.hpp"

#include <syncguard/diagnostics.hpp>

namespace syncguard::test {
namespace {

class firestore_skewed_clients : public on_firestore {
  protected:
    /// A client whose clock is this far ahead of the test's, from now on.
    [[nodiscard]] firestore::backend open_ahead(milliseconds skew) const {
        return firestore::backend({.project = project_->name(),
                                   .emulator_host = project_->emulator_host(),
                                   .clock = [clock = clock_, skew] { return clock.now() + skew; }},
                                  {.operation_timeout = 20s});
    }
};

TEST_F(firestore_skewed_clients, never_take_each_others_live_locks_within_the_tolerance) {
    const auto owner = open();
    for (const milliseconds skew : {999ms, 500ms, -500ms, -999ms}) {
        const auto other = open_ahead(skew);
        const auto id = owner.acquire("k", {.ttl = 10s})->detach();
        clock_.advance(10s - 1ms);
        EXPECT_FALSE(other.acquire("k")) << skew.count();
        EXPECT_TRUE(other.is_locked("k")) << skew.count();
        EXPECT_TRUE(owns(owner, id)) << skew.count();
        EXPECT_TRUE(owner.release(id).ok) << skew.count();
    }
}

TEST_F(firestore_skewed_clients, eventually_get_the_lock_of_a_client_that_has_gone) {
    const auto owner = open();
    for (const milliseconds skew : {999ms, -999ms}) {
        const auto id = owner.acquire("k", {.ttl = 10s})->detach();
        clock_.advance(10s + time_tolerance - skew);
        auto next = open_ahead(skew).acquire("k", {.ttl = 10s});
        ASSERT_TRUE(next) << skew.count();
        EXPECT_FALSE(owner.release(id).ok) << skew.count();
        EXPECT_TRUE(next->release().ok) << skew.count();
    }
}

TEST_F(firestore_skewed_clients, beyond_the_tolerance_are_distinguished_by_their_fences) {
    const auto owner = open();
    auto lease = owner.acquire("k", {.ttl = 10s});
    ASSERT_TRUE(lease);
    // By such a wrong clock the lock has expired.
    const auto wrong = open_ahead(60s);
    auto taken = wrong.acquire("k", {.ttl = 10s});
    ASSERT_TRUE(taken);
    EXPECT_GT(taken->fence(), lease->fence());
    EXPECT_FALSE(lease->extend({.ttl = 10s}).ok);
    EXPECT_FALSE(lease->release().ok);
    EXPECT_TRUE(wrong.is_locked("k"));
    EXPECT_TRUE(taken->release().ok);
}

}  // namespace
}  // namespace syncguard::test
