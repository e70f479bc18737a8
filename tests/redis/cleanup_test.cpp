/// What `is_locked` removes if the clean-up is enabled, and when.
#include "redis/on_redis.hpp"
#include "support/eventually.hpp"

#include <string>

namespace syncguard::test {
namespace {

const std::string id = "AAAAAAAAAAAAAAAAAAAAAA";
const std::string lock_key = "syncguard:k";
const std::string index_key = "syncguard:id:" + id;
const std::string fence_key = "syncguard:fence:syncguard:k";

class cleanup_in_is_locked : public on_redis {
  protected:
    /// Stores a lock that expires in ten seconds, in keys that Redis keeps for longer.
    void SetUp() override {
        const auto now = server_.now();
        command({"SET", lock_key, lock_json(id, now + 10s, now, R"("k")", "000000000000005"), "PX",
                 "3600000"});
        command({"SET", index_key, lock_key, "PX", "3600000"});
        command({"SET", fence_key, "5"});
    }

    const redis::backend cleaning_ = open({.cleanup_in_is_locked = true});
};

TEST_F(cleanup_in_is_locked, removes_lock_and_index_later_than_the_guard_and_never_the_fence) {
    server_.advance(10s + 2000ms);
    EXPECT_FALSE(cleaning_.is_locked("k"));
    EXPECT_EQ(contents().size(), 3U);
    server_.advance(1ms);
    EXPECT_FALSE(cleaning_.is_locked("k"));
    EXPECT_EQ(contents(), (everything{{fence_key, {"string", "5", -1}}}));
}

TEST_F(cleanup_in_is_locked, does_not_change_a_live_lock) {
    const auto before = contents();
    EXPECT_TRUE(cleaning_.is_locked("k"));
    EXPECT_EQ(contents(), before);
    server_.advance(10s + 999ms);
    EXPECT_TRUE(cleaning_.is_locked("k"));
    server_.advance(1ms);
    EXPECT_FALSE(cleaning_.is_locked("k"));
    EXPECT_EQ(contents().size(), 3U);
}

TEST_F(cleanup_in_is_locked, happens_only_if_enabled) {
    server_.advance(20s);
    const auto before = contents();
    EXPECT_FALSE(open().is_locked("k"));
    EXPECT_EQ(contents(), before);
}

TEST_F(cleanup_in_is_locked, is_done_by_nothing_else) {
    server_.advance(20s);
    const auto before = contents();
    EXPECT_FALSE(cleaning_.lookup(key_lookup{"k"}));
    EXPECT_FALSE(cleaning_.lookup(ownership_lookup{id}));
    EXPECT_FALSE(cleaning_.release(id).ok);
    EXPECT_FALSE(cleaning_.extend(id).ok);
    EXPECT_EQ(contents(), before);
}

TEST_F(cleanup_in_is_locked, works_under_an_empty_prefix) {
    const auto now = server_.now();
    command({"FLUSHALL"});
    command({"SET", "k", lock_json(id, now - 3s, now - 9s, R"("k")", "000000000000005")});
    command({"SET", "id:" + id, "k"});
    command({"SET", "fence:k", "5"});
    EXPECT_FALSE(open({.prefix = "", .cleanup_in_is_locked = true}).is_locked("k"));
    EXPECT_EQ(contents(), (everything{{"fence:k", {"string", "5", -1}}}));
}

/// The value was not written by a SyncGuard program but parses as a lock, and "id:north" is an
/// ordinary key.
TEST_F(cleanup_in_is_locked, does_not_mistake_another_lock_for_an_index) {
    const auto now = server_.now();
    const std::string odd_ids[] = {"north", "", "!!!!!!!!!!!!!!!!!!!!!!"};
    for (const auto& odd : odd_ids) {
        SCOPED_TRACE(odd);
        command({"FLUSHALL"});
        const std::string other = "id:" + odd;
        const auto held = take(cleaning_, other);
        command({"SET", lock_key, lock_json(odd, now - 1h, now - 2h, R"("k")", "000000000000001")});
        EXPECT_FALSE(cleaning_.is_locked("k"));
        EXPECT_TRUE(cleaning_.is_locked(other));
        EXPECT_TRUE(cleaning_.release(held).ok);
    }
}

TEST(cleanup_on_a_replica, does_not_prevent_the_answer) {
    redis_server primary({.arguments = {"--repl-diskless-sync-delay", "0"}});
    const auto now = primary.now();
    primary.command(
        {"SET", lock_key, lock_json(id, now - 1h, now - 2h, R"("k")", "000000000000005")});
    primary.command({"SET", index_key, lock_key});
    redis_server replica(
        {.arguments = {"--replicaof", "127.0.0.1 " + std::to_string(primary.port())}});
    ASSERT_TRUE(eventually([&] { return contents_of(replica).size() == 2; }));
    const redis::backend locks({.port = replica.port(), .cleanup_in_is_locked = true});
    EXPECT_FALSE(locks.is_locked("k"));
    EXPECT_EQ(contents_of(replica).size(), 2U);
    EXPECT_EQ(contents_of(primary).size(), 2U);
}

}  // namespace
}  // namespace syncguard::test
