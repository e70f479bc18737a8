/// The stored data, byte for byte; see docs/storage.md.
#include "redis/on_redis.hpp"
#include "support/expect_error.hpp"

#include <syncguard/diagnostics.hpp>
#include <syncguard/key.hpp>

#include <boost/json.hpp>

#include <string>

namespace syncguard::test {
namespace {

using namespace std::string_literals;

class stored_in_redis : public on_redis {
  protected:
    /// Expects exactly the data of one acquisition of `key`, given the names of its three keys.
    void expect_layout(const redis::options& store, const std::string& key,
                       const std::string& json_key, const std::string& lock_key,
                       const std::string& index_prefix, const std::string& fence_key) {
        SCOPED_TRACE(lock_key);
        command({"FLUSHALL"});
        const auto locks = open(store);
        const auto now = server_.now();
        const auto id = take(locks, key, 12'345ms);
        const auto lock = lock_json(id, now + 12'345ms, now, json_key, "000000000000001");
        const everything expected{{lock_key, {"string", lock, 12'345}},
                                  {index_prefix + id.to_string(), {"string", lock_key, 12'345}},
                                  {fence_key, {"string", "1", -1}}};
        EXPECT_EQ(contents(), expected);

        const auto parsed = boost::json::parse(lock).as_object();
        EXPECT_EQ(parsed.size(), 5U);
        EXPECT_EQ(std::string_view(parsed.at("key").as_string()), key);
        const auto found = get_by_id_raw(locks, id);
        ASSERT_TRUE(found);
        EXPECT_EQ(found->key, key);
        EXPECT_EQ(found->expires_at, now + 12'345ms);
        EXPECT_TRUE(locks.release(id).ok);
        EXPECT_EQ(contents(), (everything{{fence_key, {"string", "1", -1}}}));
    }
};

TEST_F(stored_in_redis, a_lock_its_index_and_its_fence_counter) {
    expect_layout({}, "resource:123", R"("resource:123")", "syncguard:resource:123",
                  "syncguard:id:", "syncguard:fence:syncguard:resource:123");
}

TEST_F(stored_in_redis, prefixes_lose_their_trailing_colons_and_may_be_empty) {
    expect_layout({.prefix = "app"}, "k", R"("k")", "app:k", "app:id:", "app:fence:app:k");
    expect_layout({.prefix = "app:::"}, "k", R"("k")", "app:k", "app:id:", "app:fence:app:k");
    expect_layout({.prefix = ":a:b:"}, "k", R"("k")", ":a:b:k", ":a:b:id:", ":a:b:fence::a:b:k");
    expect_layout({.prefix = ""}, "k", R"("k")", "k", "id:", "fence:k");
    expect_layout({.prefix = "::"}, "k", R"("k")", "k", "id:", "fence:k");
}

TEST_F(stored_in_redis, keys_of_all_kinds) {
    const auto expect_default_layout = [&](const std::string& key, const std::string& json_key) {
        expect_layout({}, key, json_key, "syncguard:" + key,
                      "syncguard:id:", "syncguard:fence:syncguard:" + key);
    };
    expect_default_layout(R"(a"b)", R"("a\"b")");
    expect_default_layout(R"(a\b)", R"("a\\b")");
    expect_default_layout(R"(\)", R"("\\")");
    expect_default_layout("a/b", R"("a/b")");
    expect_default_layout("\0"s, R"("\u0000")");
    expect_default_layout("a\0b"s, R"("a\u0000b")");
    expect_default_layout("a\r\nb\t\x01\x1f\x7f", "\"a\\r\\nb\\t\\u0001\\u001f\x7f\"");
    expect_default_layout("%1 %d %s %%", R"("%1 %d %s %%")");
    expect_default_layout("schlüssel-鍵-🔑", R"("schlüssel-鍵-🔑")");
    expect_default_layout(R"(","expiresAtMs":1,"fence":"9"})",
                          R"("\",\"expiresAtMs\":1,\"fence\":\"9\"}")");
    expect_default_layout(std::string(512, 'k'), '"' + std::string(512, 'k') + '"');
}

TEST_F(stored_in_redis, keys_are_stored_in_their_normal_form) {
    const auto locks = open();
    const auto id = take(locks, "cafe\u0301");
    EXPECT_EQ(command({"GET", "syncguard:id:" + id.to_string()}).text, "syncguard:caf\u00e9");
    EXPECT_EQ(get_by_key_raw(locks, "caf\u00e9")->key, "caf\u00e9");
}

TEST_F(stored_in_redis, if_a_key_is_too_long_the_index_has_its_hashed_form) {
    constexpr storage_key_budget budget{.limit_bytes = 1000, .reserve_bytes = 26};
    const std::string prefix(600, 'p');
    const std::string key(512, 'k');
    const auto lock_key = make_storage_key(prefix, key, budget);
    EXPECT_EQ(lock_key.size(), 600U + 1 + 22);
    const auto fence_key = make_fence_key(prefix, lock_key, budget);
    EXPECT_EQ(fence_key.size(), 600U + 1 + 22);
    expect_layout({.prefix = prefix}, key, '"' + key + '"', lock_key, prefix + ":id:", fence_key);
}

TEST_F(stored_in_redis, a_fence_key_may_be_hashed_although_the_lock_key_is_not) {
    const std::string prefix(400, 'p');
    const std::string key(512, 'k');
    const auto fence_key = make_fence_key(prefix, prefix + ":" + key, {1000, 26});
    EXPECT_EQ(fence_key.size(), 400U + 1 + 22);
    expect_layout({.prefix = prefix}, key, '"' + key + '"', prefix + ":" + key,
                  prefix + ":id:", fence_key);
}

TEST_F(stored_in_redis, the_longest_accepted_prefix_works) {
    const std::string prefix(948, 'p');
    const auto lock_key = make_storage_key(prefix, std::string(30, 'k'), {1000, 26});
    expect_layout({.prefix = prefix}, std::string(30, 'k'), '"' + std::string(30, 'k') + '"',
                  lock_key, prefix + ":id:", make_fence_key(prefix, lock_key, {1000, 26}));
}

TEST_F(stored_in_redis, extending_changes_the_expiry_and_both_ttls_and_nothing_else) {
    const auto locks = open();
    const auto acquired = server_.now();
    const auto id = take(locks, R"(k","expiresAtMs":5)", 10s);
    server_.advance(4s);
    ASSERT_TRUE(locks.extend(id, {.ttl = 60s}).ok);
    const std::string lock_key = R"(syncguard:k","expiresAtMs":5)";
    const auto lock =
        lock_json(id, acquired + 64s, acquired, R"("k\",\"expiresAtMs\":5")", "000000000000001");
    const everything expected{
        {lock_key, {"string", lock, 60'000}},
        {"syncguard:id:" + id.to_string(), {"string", lock_key, 60'000}},
        {R"(syncguard:fence:syncguard:k","expiresAtMs":5)", {"string", "1", -1}}};
    EXPECT_EQ(contents(), expected);
}

TEST_F(stored_in_redis, an_extension_may_shorten) {
    const auto locks = open();
    const auto id = take(locks, "k", 10min);
    ASSERT_TRUE(locks.extend(id, {.ttl = 1ms}).ok);
    EXPECT_EQ(contents().at("syncguard:k").ttl_ms, 1);
    EXPECT_EQ(contents().at("syncguard:id:" + id.to_string()).ttl_ms, 1);
}

TEST_F(stored_in_redis, only_the_counter_outlives_the_lock) {
    const auto locks = open();
    (void)take(locks, "k", 10s);
    server_.advance(10s);
    EXPECT_EQ(contents().size(), 3U);
    server_.advance(1ms);
    const everything expected{{"syncguard:fence:syncguard:k", {"string", "1", -1}}};
    EXPECT_EQ(contents(), expected);
}

TEST_F(stored_in_redis, a_second_grant_increments_the_counter) {
    const auto locks = open();
    ASSERT_TRUE(locks.release(take(locks, "k")).ok);
    const auto now = server_.now();
    const auto id = take(locks, "k", 1s);
    EXPECT_EQ(command({"GET", "syncguard:k"}).text,
              lock_json(id, now + 1s, now, R"("k")", "000000000000002"));
    EXPECT_EQ(command({"GET", "syncguard:fence:syncguard:k"}).text, "2");
}

TEST_F(stored_in_redis, an_attempt_on_a_held_key_changes_nothing) {
    const auto locks = open();
    (void)take(locks, "k");
    const auto before = contents();
    EXPECT_FALSE(locks.acquire("k"));
    EXPECT_EQ(contents(), before);
}

TEST_F(stored_in_redis, locks_are_in_the_configured_database) {
    (void)take(open({.database = 3}), "k");
    EXPECT_TRUE(contents().empty());
    EXPECT_NE(command({"INFO", "keyspace"}).text.find("db3:keys=3"), std::string::npos);
}

class fence_counter_in_redis : public on_redis {
  protected:
    static constexpr const char* counter_key = "syncguard:fence:syncguard:k";

    std::string fence_after(const std::string& counter) {
        command({"FLUSHALL"});
        command({"SET", counter_key, counter});
        auto lease = open().acquire("k");
        const std::string fence = lease->fence().to_string();
        EXPECT_NE(command({"GET", "syncguard:k"}).text.find(R"("fence":")" + fence + '"'),
                  std::string::npos);
        lease->detach();
        return fence;
    }
};

TEST_F(fence_counter_in_redis, fences_have_fifteen_digits_from_the_first_to_the_last) {
    EXPECT_EQ(fence_after("0"), "000000000000001");
    EXPECT_EQ(fence_after("9"), "000000000000010");
    EXPECT_EQ(fence_after("4294967295"), "000004294967296");
    EXPECT_EQ(fence_after("99999999999999"), "100000000000000");
    EXPECT_EQ(fence_after("123456789012344"), "123456789012345");
    EXPECT_EQ(fence_after("899999999999999"), "900000000000000");
}

TEST_F(fence_counter_in_redis, after_the_last_fence_nothing_is_written) {
    const auto locks = open();
    for (const char* counter : {"900000000000000", "900000000000001", "9007199254740991",
                                "9007199254740993", "9223372036854775807"}) {
        command({"SET", counter_key, counter});
        const auto failure = expect_error(error_code::internal, [&] { (void)locks.acquire("k"); });
        ASSERT_TRUE(failure);
        EXPECT_NE(std::string(failure->what()).find("fence"), std::string::npos);
        EXPECT_EQ(contents(), (everything{{counter_key, {"string", counter, -1}}}));
        EXPECT_FALSE(locks.is_locked("k"));
    }
}

TEST_F(fence_counter_in_redis, a_held_key_is_locked_even_if_its_fences_are_used_up) {
    const auto locks = open();
    command({"SET", counter_key, "899999999999999"});
    const auto id = take(locks, "k");
    EXPECT_FALSE(locks.acquire("k"));
    ASSERT_TRUE(locks.release(id).ok);
    expect_error(error_code::internal, [&] { (void)locks.acquire("k"); });
    EXPECT_EQ(command({"GET", counter_key}).text, "900000000000000");
}

}  // namespace
}  // namespace syncguard::test
