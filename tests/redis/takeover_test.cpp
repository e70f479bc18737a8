/// Grants over an expired lock that the server still stores.
#include "redis/on_redis.hpp"
#include "support/expect_error.hpp"

#include <string>

namespace syncguard::test {
namespace {

const std::string some_id = "AAAAAAAAAAAAAAAAAAAAAA";
const std::string fence_key = "syncguard:fence:syncguard:k";

class takeover_in_redis : public on_redis {
  protected:
    /// Stores an expired lock, which ended a minute ago, under the key "k". `fence` is JSON.
    void store_expired(const std::string& json_key, const std::string& fence) const {
        command({"SET", "syncguard:k",
                 R"({"lockId":")" + some_id + R"(","expiresAtMs":)" + digits(server_.now() - 60s) +
                     R"(,"acquiredAtMs":1,"key":)" + json_key + R"(,"fence":)" + fence + "}"});
    }
    void set_counter(const std::string& counter) const {
        command({"DEL", fence_key});
        if (!counter.empty()) command({"SET", fence_key, counter});
    }

    const redis::backend locks_ = open();
};

TEST_F(takeover_in_redis, the_fence_is_greater_than_that_of_the_expired_lock) {
    for (const auto& [counter, expected] :
         {std::pair{"", "000000000000078"}, std::pair{"0", "000000000000078"},
          std::pair{"5", "000000000000078"}, std::pair{"77", "000000000000078"},
          std::pair{"100", "000000000000101"}}) {
        SCOPED_TRACE(counter);
        store_expired(R"("k")", R"("000000000000077")");
        set_counter(counter);
        auto lease = locks_.acquire("k");
        ASSERT_TRUE(lease);
        EXPECT_EQ(lease->fence().str(), expected);
        EXPECT_EQ(command({"GET", fence_key}).text, std::to_string(std::stoull(expected)));
        EXPECT_EQ(command({"PTTL", fence_key}).integer, -1);
    }
}

TEST_F(takeover_in_redis, an_expired_lock_at_the_last_fence_is_not_replaced) {
    for (const char* fence : {R"("900000000000000")", R"("999999999999999")"}) {
        store_expired(R"("k")", fence);
        const auto before = contents();
        expect_error(error_code::internal, [&] { (void)locks_.acquire("k"); });
        EXPECT_EQ(contents(), before);
    }
}

TEST_F(takeover_in_redis, the_last_fence_follows_the_one_before_it) {
    store_expired(R"("k")", R"("899999999999999")");
    EXPECT_EQ(locks_.acquire("k")->fence().str(), "900000000000000");
}

TEST_F(takeover_in_redis, a_foreign_value_in_the_place_of_the_counter_is_not_changed) {
    for (const char* value : {"text", "-5", "007", " 7", "1e3", "1.5"}) {
        SCOPED_TRACE(value);
        store_expired(R"("k")", R"("000000000000077")");
        set_counter(value);
        const auto before = contents();
        expect_error(error_code::invalid_argument, [&] { (void)locks_.acquire("k"); });
        EXPECT_EQ(contents(), before);
    }
}

TEST_F(takeover_in_redis, after_an_expired_lock_without_a_fence_the_counter_decides) {
    for (const char* fence : {"null", "{}", R"("")", R"("text")", R"("-7")", R"("0x10")"}) {
        SCOPED_TRACE(fence);
        store_expired(R"("k")", fence);
        set_counter("4");
        EXPECT_EQ(locks_.acquire("k")->fence().str(), "000000000000005");
    }
}

TEST_F(takeover_in_redis, keys_that_json_escapes_are_recognised) {
    using namespace std::string_literals;
    for (const auto& [key, json_key] :
         {std::pair{"a\"b\\c"s, R"("a\"b\\c")"s}, std::pair{"a/b"s, R"("a\/b")"s},
          std::pair{"a\0b\n"s, R"("a\u0000b\n")"s}, std::pair{"\u00fc"s, R"("\u00fc")"s},
          std::pair{"\u00fc"s, "\"\u00fc\""s}}) {
        SCOPED_TRACE(json_key);
        command({"DEL", "syncguard:fence:syncguard:" + key});
        command({"SET", "syncguard:" + key,
                 lock_json(some_id, server_.now() - 60s, server_.now() - 90s, json_key,
                           "000000000000007")});
        auto lease = locks_.acquire(key);
        ASSERT_TRUE(lease);
        EXPECT_EQ(lease->fence().str(), "000000000000008");
    }
}

TEST_F(takeover_in_redis, overlapping_prefixes_find_each_others_live_locks) {
    const auto outer = open({.prefix = "a"});
    const auto inner = open({.prefix = "a:b"});
    auto held = outer.acquire("b:k");
    ASSERT_TRUE(held);
    EXPECT_FALSE(inner.acquire("k"));
    EXPECT_TRUE(inner.is_locked("k"));
    ASSERT_TRUE(held->release().ok);
}

TEST_F(takeover_in_redis, overlapping_prefixes_do_not_replace_each_others_expired_locks) {
    const auto outer = open({.prefix = "a"});
    const auto inner = open({.prefix = "a:b"});
    for (int i = 0; i < 5; ++i)
        ASSERT_TRUE(outer.acquire("b:k")->release().ok);
    (void)take(outer, "b:k", 10s);
    command({"PERSIST", "a:b:k"});
    server_.advance(10s + time_tolerance);
    const auto before = contents();
    const auto failure =
        expect_error(error_code::invalid_argument, [&] { (void)inner.acquire("k"); });
    ASSERT_TRUE(failure);
    EXPECT_NE(std::string(failure->what()).find("prefix"), std::string::npos) << failure->what();
    EXPECT_EQ(contents(), before);
    EXPECT_EQ(outer.acquire("b:k")->fence().str(), "000000000000007");
}

}  // namespace
}  // namespace syncguard::test
