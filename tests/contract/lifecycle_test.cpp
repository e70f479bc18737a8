/// Acquire, release, extend, isLocked: the normal case of each.
#include "contract/contract.hpp"

#include <algorithm>

namespace syncguard::test {
namespace {

SYNCGUARD_CONTRACT(lifecycle);

TEST_P(lifecycle, a_free_key_is_granted_with_id_fence_and_the_stores_own_expiry) {
    auto lease = acquire("invoice:7", 30s);
    ASSERT_TRUE(lease);
    EXPECT_TRUE(lease.ok());
    EXPECT_FALSE(lease.reason());
    EXPECT_TRUE(lock_id::is_valid(lease->lock_id()));
    EXPECT_EQ(lease->key(), "invoice:7");
    EXPECT_EQ(lease->fence().str().size(), 15U);
    EXPECT_EQ(lease->expires_at(), fixture_->now() + 30s);
    EXPECT_TRUE(lease->valid());
    EXPECT_GT(lease->remaining(), 29s);
    EXPECT_LE(lease->remaining(), 30s);
}

TEST_P(lifecycle, a_held_key_is_locked_for_everyone_through_every_handle) {
    auto lease = acquire("k");
    ASSERT_TRUE(lease);
    EXPECT_TRUE(is_locked("k"));

    const any_backend other = fixture_->open();
    auto second = form_->acquire(other, "k", {}, {});
    EXPECT_FALSE(second);
    EXPECT_EQ(second.reason(), failure_reason::locked);
    EXPECT_TRUE(form_->is_locked(other, "k", {}));
}

TEST_P(lifecycle, keys_are_independent) {
    auto a = acquire("a");
    auto b = acquire("b");
    ASSERT_TRUE(a);
    ASSERT_TRUE(b);
    EXPECT_TRUE(form_->release(*a).ok);
    EXPECT_FALSE(is_locked("a"));
    EXPECT_TRUE(is_locked("b"));
}

TEST_P(lifecycle, release_frees_the_key_once) {
    const auto id = take("k");
    EXPECT_TRUE(release(id).ok);
    EXPECT_FALSE(is_locked("k"));
    EXPECT_FALSE(release(id).ok);
    EXPECT_TRUE(acquire("k"));
}

TEST_P(lifecycle, release_of_an_unknown_id_changes_nothing) {
    const auto id = take("k");
    EXPECT_FALSE(release(lock_id::generate()).ok);
    EXPECT_TRUE(is_locked("k"));
    EXPECT_TRUE(release(id).ok);
}

TEST_P(lifecycle, an_old_id_never_frees_or_extends_the_next_owners_lock) {
    const auto old = take("k");
    ASSERT_TRUE(release(old).ok);
    const auto fresh = take("k", 10s);
    const auto expiry = lookup_id(fresh)->expires_at;

    EXPECT_FALSE(release(old).ok);
    EXPECT_FALSE(extend(old, 60s).ok);
    ASSERT_TRUE(lookup_id(fresh));
    EXPECT_EQ(lookup_id(fresh)->expires_at, expiry);
}

TEST_P(lifecycle, extend_replaces_the_remaining_time_instead_of_adding_to_it) {
    const auto id = take("k", 30s);
    fixture_->advance(10s);
    const auto longer = extend(id, 60s);
    ASSERT_TRUE(longer.ok);
    EXPECT_EQ(longer.expires_at, fixture_->now() + 60s);

    const auto shorter = extend(id, 1s);
    ASSERT_TRUE(shorter.ok);
    EXPECT_EQ(shorter.expires_at, fixture_->now() + 1s);
    EXPECT_EQ(lookup_id(id)->expires_at, fixture_->now() + 1s);
}

TEST_P(lifecycle, extend_of_an_unknown_id_creates_nothing) {
    EXPECT_FALSE(extend(lock_id::generate()).ok);
    EXPECT_FALSE(is_locked("k"));
}

TEST_P(lifecycle, a_lease_extends_and_releases_itself) {
    auto lease = acquire("k", 5s);
    ASSERT_TRUE(lease);
    const auto extended = form_->extend(*lease, {.ttl = 60s});
    ASSERT_TRUE(extended.ok);
    EXPECT_EQ(lease->expires_at(), extended.expires_at);
    EXPECT_GT(lease->remaining(), 50s);

    EXPECT_TRUE(form_->release(*lease).ok);
    EXPECT_FALSE(lease->valid());
    EXPECT_EQ(lease->remaining(), 0ms);
    EXPECT_FALSE(form_->release(*lease).ok);
    EXPECT_FALSE(form_->extend(*lease, {}).ok);
    EXPECT_FALSE(is_locked("k"));
}

TEST_P(lifecycle, a_lease_is_invalid_after_it_has_found_its_loss) {
    auto lease = acquire("k", 60s);
    ASSERT_TRUE(lease);
    ASSERT_TRUE(release(lease->lock_id()).ok);
    EXPECT_FALSE(form_->extend(*lease, {.ttl = 60s}).ok);
    EXPECT_FALSE(lease->valid());
}

TEST_P(lifecycle, a_detached_lock_is_not_released) {
    const auto id = take("k");
    EXPECT_TRUE(is_locked("k"));
    EXPECT_TRUE(release(id).ok);
}

TEST_P(lifecycle, is_locked_does_not_change_the_expiry) {
    const auto id = take("k", 30s);
    const auto before = lookup_id(id)->expires_at;
    fixture_->advance(5s);
    EXPECT_TRUE(is_locked("k"));
    EXPECT_EQ(lookup_id(id)->expires_at, before);
}

TEST_P(lifecycle, ids_are_never_reused) {
    std::vector<std::string> ids;
    for (int i = 0; i < 20; ++i) {
        ids.push_back(take("k").to_string());
        ASSERT_TRUE(release(ids.back()).ok);
    }
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
}

TEST_P(lifecycle, capabilities_are_declared) {
    const auto capabilities = locks_.capabilities();
    EXPECT_TRUE(capabilities.supports_fencing);
    EXPECT_EQ(capabilities.backend, std::get<0>(GetParam()).name);
}

}  // namespace
}  // namespace syncguard::test
