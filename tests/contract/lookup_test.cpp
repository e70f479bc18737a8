/// Lookups return the stored state, change nothing, and reveal only what was requested.
#include "contract/contract.hpp"

#include <syncguard/diagnostics.hpp>
#include <syncguard/key.hpp>

namespace syncguard::test {
namespace {

SYNCGUARD_CONTRACT(lookups);

TEST_P(lookups, a_free_key_and_an_unknown_id_have_no_information) {
    EXPECT_FALSE(lookup_key("k"));
    EXPECT_FALSE(lookup_id(lock_id::generate()));
}

TEST_P(lookups, lookups_by_key_and_by_id_return_the_same_sanitised_information) {
    auto lease = acquire("secret-key", 30s);
    ASSERT_TRUE(lease);
    const auto by_key = lookup_key("secret-key");
    const auto by_id = lookup_id(lease->lock_id());
    ASSERT_TRUE(by_key);
    ASSERT_TRUE(by_id);
    for (const auto& info : {*by_key, *by_id}) {
        EXPECT_EQ(info.key_hash, hash_key("secret-key"));
        EXPECT_EQ(info.lock_id_hash, hash_key(lease->lock_id().str()));
        EXPECT_EQ(info.acquired_at, fixture_->now());
        EXPECT_EQ(info.expires_at, fixture_->now() + 30s);
        EXPECT_EQ(info.fence, lease->fence());
    }
}

TEST_P(lookups, a_released_lock_has_no_information) {
    const auto id = take("k");
    ASSERT_TRUE(release(id).ok);
    EXPECT_FALSE(lookup_key("k"));
    EXPECT_FALSE(lookup_id(id));
}

TEST_P(lookups, extending_moves_the_expiry_and_not_the_time_of_acquisition) {
    const auto id = take("k", 30s);
    const auto acquired_at = fixture_->now();
    fixture_->advance(5s);
    ASSERT_TRUE(extend(id, 30s).ok);
    const auto info = lookup_id(id);
    ASSERT_TRUE(info);
    EXPECT_EQ(info->acquired_at, acquired_at);
    EXPECT_EQ(info->expires_at, fixture_->now() + 30s);
}

TEST_P(lookups, a_lookup_changes_nothing) {
    const auto id = take("k", 30s);
    const auto before = lookup_id(id);
    fixture_->advance(7s);
    for (int i = 0; i < 5; ++i) {
        ASSERT_TRUE(lookup_key("k"));
        ASSERT_TRUE(lookup_id(id));
    }
    EXPECT_EQ(lookup_id(id)->expires_at, before->expires_at);
    EXPECT_EQ(lookup_id(id)->acquired_at, before->acquired_at);
    EXPECT_EQ(lookup_id(id)->fence, before->fence);
}

TEST_P(lookups, the_helpers_return_the_same_as_lookup) {
    const auto id = take("k");
    EXPECT_EQ(get_by_key(locks_, "k")->key_hash, hash_key("k"));
    EXPECT_EQ(get_by_id(locks_, id)->lock_id_hash, hash_key(id.str()));
    EXPECT_TRUE(owns(locks_, id));
    ASSERT_TRUE(release(id).ok);
    EXPECT_FALSE(get_by_key(locks_, "k"));
    EXPECT_FALSE(get_by_id(locks_, id));
    EXPECT_FALSE(owns(locks_, id));
}

TEST_P(lookups, raw_identifiers_come_only_from_the_raw_helpers) {
    const auto id = take("caf\xC3\xA9");
    const auto by_key = get_by_key_raw(locks_, "cafe\xCC\x81");
    const auto by_id = get_by_id_raw(locks_, id);
    ASSERT_TRUE(by_key);
    ASSERT_TRUE(by_id);
    for (const auto& info : {*by_key, *by_id}) {
        EXPECT_EQ(info.key, "caf\xC3\xA9");
        EXPECT_EQ(info.lock_id, id.str());
        EXPECT_EQ(info.key_hash, hash_key("caf\xC3\xA9"));
    }
    EXPECT_FALSE(get_by_key_raw(locks_, "free"));
    EXPECT_FALSE(get_by_id_raw(locks_, lock_id::generate()));
}

template <class Info>
concept reveals_identifiers = requires(const Info& info) {
    info.key;
}
|| requires(const Info& info) {
    info.lock_id;
};

static_assert(!reveals_identifiers<lock_info<any_capabilities>>);
static_assert(reveals_identifiers<lock_info_debug<any_capabilities>>);

}  // namespace
}  // namespace syncguard::test
