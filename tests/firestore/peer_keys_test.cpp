/// Keys with slashes: the documents that peers use, and those of earlier versions.
#include "firestore/on_firestore.hpp"
#include "support/firestore_peer.hpp"

#include <syncguard/diagnostics.hpp>
#include <syncguard/lock_id.hpp>

#include <optional>
#include <string>

namespace syncguard::test {
namespace {

namespace json = boost::json;

/// First 16 bytes of SHA-256 of the key: echo -n KEY | sha256sum | head -c 32 | xxd -r -p | base64
constexpr const char* hash_of_a_b = "wUzdwDP2S53qgOpnXPKAoA";
constexpr const char* invoice = "tenant/42/invoice";
constexpr const char* hash_of_invoice = "4hzL9UzuUwyWG9UIWAEy3Q";

class firestore_peer_keys : public on_firestore {
  protected:
    void SetUp() override {
        on_firestore::SetUp();
        if (project_) peer_.emplace(*project_, clock_.as_wall_clock());
    }
    void put_counter(const std::string& id, const std::string& fence) const {
        project_->put("fence_counters", "fence:" + id,
                      R"({"fence":{"stringValue":")" + fence + R"("}})");
    }
    [[nodiscard]] outcome execute(const firestore::backend& locks, const request& req) const {
        return detail::access::core(locks).backing_engine()->execute(
            req, {.deadline = std::chrono::steady_clock::now() + 20s, .stop = {}});
    }

    std::optional<firestore_peer> peer_;
};

TEST_F(firestore_peer_keys, are_locked_by_one_side_at_a_time_and_share_their_fences) {
    for (const std::string key :
         {"plain", "tenant/42/invoice", "a/b/c/d/e", "a/", "x/y/z/", "a b/c d/\xC3\xA9"}) {
        SCOPED_TRACE(key);
        const auto first = peer_->acquire(key, 30s);
        EXPECT_TRUE(first);
        const auto locks = open();
        EXPECT_TRUE(locks.is_locked(key));
        EXPECT_FALSE(locks.acquire(key));
        EXPECT_TRUE(get_by_key(locks, key));
        peer_->release(key);
        EXPECT_FALSE(locks.is_locked(key));

        auto lease = locks.acquire(key, {.ttl = 30s});
        ASSERT_TRUE(lease);
        EXPECT_GT(lease->fence().str(), *first);
        EXPECT_FALSE(peer_->acquire(key, 30s));
        EXPECT_TRUE(lease->extend({.ttl = 30s}).ok);
        EXPECT_TRUE(lease->release().ok);
        const auto second = peer_->acquire(key, 30s);
        ASSERT_TRUE(second);
        EXPECT_GT(*second, lease->fence().str());
        clock_.advance(32s);
    }
}

TEST_F(firestore_peer_keys, that_peers_cannot_use_are_hashed_for_lock_and_counter) {
    const auto locks = open();
    for (const std::string key :
         {"/", "/a", "/a/b/c", "a/b", "a//b", "a/b//c", "/a/b/", ".", "a/../c", "a/__b__/c"}) {
        SCOPED_TRACE(key);
        EXPECT_FALSE(peer_document_path(key) && peer_document_path("fence:" + key));
        const auto id = locks.acquire(key)->detach();
        const auto documents = project_->all("locks");
        ASSERT_EQ(documents.size(), 1U);
        EXPECT_TRUE(lock_id::is_valid(documents.begin()->first));
        EXPECT_TRUE(project_->fields("fence_counters", "fence:" + documents.begin()->first));
        EXPECT_TRUE(locks.is_locked(key));
        EXPECT_TRUE(open().release(id).ok);
    }
}

TEST_F(firestore_peer_keys, are_found_by_id_alone_only_outside_of_subcollections) {
    const auto locks = open();
    const auto id = locks.acquire(invoice, {.ttl = 30s})->detach();
    const auto others = open();
    EXPECT_FALSE(others.release(id).ok);
    EXPECT_TRUE(execute(others, extend_request{.id = id, .ttl = 60s, .key = invoice}).ok);
    EXPECT_TRUE(execute(open(), release_request{.id = id, .key = invoice}).ok);
    EXPECT_FALSE(others.is_locked(invoice));
}

TEST_F(firestore_peer_keys, that_share_a_document_are_distinguished) {
    ASSERT_TRUE(peer_->acquire("a/", 30s));
    const auto locks = open();
    EXPECT_TRUE(locks.is_locked("a"));
    EXPECT_FALSE(locks.acquire("a"));
    EXPECT_FALSE(get_by_key(locks, "a"));
    EXPECT_TRUE(get_by_key(locks, "a/"));
    clock_.advance(32s);
    auto lease = locks.acquire("a");
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->fence().str(), "000000000000002");
    EXPECT_FALSE(get_by_key(locks, "a/"));
    EXPECT_TRUE(lease->release().ok);
}

TEST_F(firestore_peer_keys,
       that_look_like_anothers_hash_share_its_lock_and_fences_but_not_its_lookup) {
    const auto locks = open();
    auto victim = locks.acquire("a/b", {.ttl = 30s});
    ASSERT_TRUE(victim);
    EXPECT_TRUE(locks.is_locked(hash_of_a_b));
    EXPECT_FALSE(open().acquire(hash_of_a_b));
    EXPECT_FALSE(get_by_key(locks, hash_of_a_b));
    clock_.advance(32s);
    auto other = open().acquire(hash_of_a_b, {.ttl = 30s});
    ASSERT_TRUE(other);
    EXPECT_EQ(other->fence().str(), "000000000000002");
    EXPECT_FALSE(open().acquire("a/b"));
    EXPECT_FALSE(get_by_key(open(), "a/b"));
    EXPECT_FALSE(victim->extend({.ttl = 30s}).ok);
    EXPECT_FALSE(victim->release().ok);
    EXPECT_TRUE(other->release().ok);
}

TEST_F(firestore_peer_keys, that_were_hashed_before_stay_locked_and_keep_their_fences) {
    const auto id = lock_id::generate();
    project_->put("locks", hash_of_invoice,
                  lock_fields(id.to_string(), clock_.now() + 10s, invoice, "000000000000041"));
    put_counter(hash_of_invoice, "000000000000041");
    const auto locks = open();
    EXPECT_TRUE(locks.is_locked(invoice));
    EXPECT_FALSE(locks.acquire(invoice));
    const auto found = get_by_key(locks, invoice);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->fence, fence::from_counter(41));
    EXPECT_TRUE(execute(locks, extend_request{.id = id, .ttl = 20s, .key = invoice}).ok);
    clock_.advance(20s + 999ms);
    EXPECT_FALSE(locks.acquire(invoice));

    clock_.advance(1ms);
    auto lease = locks.acquire(invoice, {.ttl = 30s});
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->fence().str(), "000000000000042");
    // The old document no longer exists, so that a late extension of the old lock fails.
    EXPECT_FALSE(project_->fields("locks", hash_of_invoice));
    EXPECT_TRUE(project_->fields("locks", invoice));
    EXPECT_FALSE(peer_->acquire(invoice, 30s));
    EXPECT_TRUE(lease->release().ok);
    EXPECT_EQ(peer_->acquire(invoice, 30s), "000000000000043");
}

TEST_F(firestore_peer_keys, that_were_hashed_before_are_released_by_their_owner) {
    const auto id = lock_id::generate();
    project_->put("locks", hash_of_invoice,
                  lock_fields(id.to_string(), clock_.now() + 10s, invoice, "000000000000041"));
    put_counter(hash_of_invoice, "000000000000050");
    EXPECT_TRUE(execute(open(), release_request{.id = id, .key = invoice}).ok);
    EXPECT_FALSE(open().is_locked(invoice));
    auto lease = open().acquire(invoice);
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->fence().str(), "000000000000051");
    EXPECT_TRUE(lease->release().ok);
}

}  // namespace
}  // namespace syncguard::test
