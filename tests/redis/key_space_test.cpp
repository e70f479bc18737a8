/// Names of Redis keys: those of the specification, and those that no user's key may have.
#include "redis/key_space.hpp"

#include "redis/monitor.hpp"
#include "redis/on_redis.hpp"
#include "support/expect_error.hpp"

#include <syncguard/async.hpp>

#include <boost/asio/use_future.hpp>
#include <boost/json.hpp>

#include <charconv>
#include <fstream>
#include <iterator>
#include <string>

namespace syncguard::test {
namespace {

namespace json = boost::json;
using redis::key_space;

const std::string some_id = "AAAAAAAAAAAAAAAAAAAA_-";

std::string from_hex(const json::value& hex) {
    const std::string_view text = hex.as_string();
    std::string bytes;
    for (std::size_t i = 0; i < text.size(); i += 2) {
        unsigned byte = 0;
        std::from_chars(text.data() + i, text.data() + i + 2, byte, 16);
        bytes.push_back(static_cast<char>(byte));
    }
    return bytes;
}

TEST(redis_key_space, names_are_made_as_in_all_implementations) {
    std::ifstream file(SYNCGUARD_TEST_DATA "/reference_vectors.json");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const auto vectors = json::parse(text);
    int checked = 0;
    for (const auto& each : vectors.at("storage_keys").as_array()) {
        const auto& entry = each.as_object();
        const std::string prefix = from_hex(entry.at("prefix_utf8_hex"));
        if (entry.at("limit") != 1000 || entry.at("reserve") != 26) continue;
        if (prefix.find("fence") != std::string::npos || prefix.size() > 948) continue;
        if (!entry.at("error").is_null()) continue;
        const key_space keys(prefix);
        const auto lock_key = keys.lock_key(from_hex(entry.at("key_utf8_hex")));
        EXPECT_EQ(lock_key, from_hex(entry.at("storage_key_utf8_hex")));
        EXPECT_EQ(keys.fence_key(lock_key), from_hex(entry.at("fence_key_utf8_hex")));
        ++checked;
    }
    EXPECT_GE(checked, 30);
}

TEST(redis_key_space, index_keys_begin_with_the_prefix) {
    EXPECT_EQ(key_space("syncguard").index_prefix(), "syncguard:id:");
    EXPECT_EQ(key_space("a:").index_prefix(), "a:id:");
    EXPECT_EQ(key_space("").index_prefix(), "id:");
    EXPECT_EQ(key_space("a::").index_prefix(), "a:id:");
}

struct naming {
    std::string prefix;
    std::string key;
};

TEST(redis_key_space, names_of_indexes_and_counters_are_no_keys) {
    for (const auto& [prefix, key] :
         {naming{"syncguard", "id:" + some_id}, naming{"", "id:" + some_id},
          naming{"syncguard", "fence:syncguard:"}, naming{"syncguard", "fence:syncguard:k"},
          naming{"syncguard::", "fence:syncguard:k"}, naming{"a:b", "fence:a:b:k"},
          naming{"", "fence:"}, naming{"", "fence:k"}, naming{":", "fence:syncguard:k"}}) {
        SCOPED_TRACE(prefix + " " + key);
        const key_space keys(prefix);
        const auto failure =
            expect_error(error_code::invalid_argument, [&] { (void)keys.lock_key(key); });
        ASSERT_TRUE(failure);
        EXPECT_EQ(std::string(failure->what()).find(some_id), std::string::npos);
        EXPECT_EQ(std::string(failure->what()).find("syncguard:k"), std::string::npos);
    }
}

TEST(redis_key_space, similar_names_are_ordinary_keys) {
    for (const auto& [prefix, key] :
         {naming{"syncguard", "id:"}, naming{"syncguard", "id:" + some_id.substr(1)},
          naming{"syncguard", "id:" + some_id + "A"}, naming{"syncguard", "ID:" + some_id},
          naming{"syncguard", "id:AAAAAAAAAAAAAAAAAAAAA="},
          naming{"syncguard", "id:AAAAAAAAAAAAAAAAAAAAA."}, naming{"syncguard", "xid:" + some_id},
          naming{"syncguard", "fence"}, naming{"syncguard", "fence:"},
          naming{"syncguard", "fence:north-gate"}, naming{"syncguard", "fence:syncguard"},
          naming{"syncguard", "fence:other:k"}, naming{"syncguard", "FENCE:syncguard:k"},
          naming{"syncguard", "fence:syncguard2:k"}, naming{"a:b", "fence:a:k"},
          naming{"", "fence"}, naming{"", "fencepost"}}) {
        SCOPED_TRACE(prefix + " " + key);
        const std::string expected = prefix.empty() ? key : prefix + ":" + key;
        EXPECT_EQ(key_space(prefix).lock_key(key), expected);
    }
}

/// A counter's name contains the prefix in its normal form, in whatever form it was given.
TEST(redis_key_space, a_prefix_in_another_normal_form_gives_no_access_to_a_counter) {
    const key_space keys("cafe\u0301");
    const std::string counter = keys.fence_key(keys.lock_key("k"));
    const std::string prefix = "cafe\u0301:";
    ASSERT_TRUE(counter.starts_with(prefix));
    expect_error(error_code::invalid_argument,
                 [&] { (void)keys.lock_key(counter.substr(prefix.size())); });
}

/// With long prefixes, names of long keys are replaced by a hash of 22 base64url characters.
TEST(redis_key_space, keys_that_look_like_a_hash_are_refused_if_names_can_be_hashed) {
    const std::string longest_key(512, 'k');
    for (const std::size_t size : {228U, 461U, 462U, 600U, 948U}) {
        const key_space keys(std::string(size, 'p'));
        const auto hash = [&](const std::string& name) { return name.substr(size + 1); };
        const std::string lock_key = keys.lock_key(longest_key);
        // The name of a counter contains that of its lock. With the longer prefixes the lock's name
        // is hashed, so that the counter's name fits.
        const bool lock_is_hashed = hash(lock_key) != longest_key;
        const std::string hashed = hash(lock_is_hashed ? lock_key : keys.fence_key(lock_key));
        for (const auto& key : {hashed, some_id}) {
            ASSERT_EQ(key.size(), 22U) << size;
            const auto failure =
                expect_error(error_code::invalid_argument, [&] { (void)keys.lock_key(key); });
            ASSERT_TRUE(failure);
            EXPECT_NE(std::string(failure->what()).find("prefix"), std::string::npos);
            expect_error(error_code::invalid_argument, [&] { (void)keys.uses_raw_key(key); });
        }
        EXPECT_NO_THROW((void)keys.lock_key(some_id + "A"));
    }
    for (const std::size_t size : {0U, 9U, 227U})
        EXPECT_NO_THROW((void)key_space(std::string(size, 'p')).lock_key(some_id));
}

TEST(redis_key_space, prefixes_that_mix_locks_with_counters_are_refused) {
    for (const char* prefix : {"fence", "fence:", "fence::", "fence:x", "a:fence",
                               "a:fence:", "a:fence:b", "myfence", "myfence:x", "fence:fence"}) {
        expect_error(error_code::invalid_argument, [&] { key_space{prefix}; });
        expect_error(error_code::invalid_argument, [&] { redis::backend({.prefix = prefix}); });
    }
    for (const char* prefix : {"", "fences", "fence-x", "a:fencex:b", "Fence", "FENCE:"})
        EXPECT_NO_THROW(key_space{prefix}) << prefix;
}

TEST(redis_key_space, prefixes_that_leave_no_room_or_are_no_text_are_refused) {
    EXPECT_NO_THROW(key_space(std::string(948, 'p')));
    for (const std::size_t size : {949U, 951U, 952U, 973U, 974U, 1000U, 5000U}) {
        expect_error(error_code::invalid_argument, [&] { key_space(std::string(size, 'p')); });
    }
    expect_error(error_code::invalid_argument, [&] { key_space("\xff"); });
}

TEST(reserved_keys_in_redis, are_refused_without_a_server) {
    const reserved_port nobody_listens;
    const redis::backend locks({.port = nobody_listens.number()});
    for (const std::string& key : {"id:" + some_id, std::string("fence:syncguard:k")}) {
        expect_error(error_code::invalid_argument, [&] { (void)locks.acquire(key); });
        expect_error(error_code::invalid_argument, [&] { (void)locks.is_locked(key); });
        expect_error(error_code::invalid_argument, [&] { (void)locks.lookup(key_lookup{key}); });
        expect_error(error_code::invalid_argument,
                     [&] { (void)async_acquire(locks, key, {}, boost::asio::use_future).get(); });
    }
}

class keys_in_redis : public on_redis {};

TEST_F(keys_in_redis, reserved_ones_are_not_sent) {
    const auto locks = open();
    (void)locks.is_locked("k");
    monitor watch(server_);
    for (const std::string& key : {"id:" + some_id, std::string("fence:syncguard:k")}) {
        expect_error(error_code::invalid_argument, [&] { (void)locks.acquire(key); });
        expect_error(error_code::invalid_argument, [&] { (void)locks.is_locked(key); });
        expect_error(error_code::invalid_argument, [&] { (void)locks.lookup(key_lookup{key}); });
    }
    EXPECT_TRUE(watch.executed().empty());
}

TEST_F(keys_in_redis, similar_ones_to_reserved_ones_can_be_locked) {
    const auto locks = open();
    for (const std::string& key :
         {std::string("fence:north-gate"), "id:" + some_id.substr(1), "id:" + some_id + "A"}) {
        const auto id = take(locks, key);
        EXPECT_TRUE(locks.is_locked(key));
        EXPECT_FALSE(locks.acquire(key));
        EXPECT_TRUE(locks.extend(id).ok);
        EXPECT_TRUE(locks.release(id).ok);
        EXPECT_EQ(locks.acquire(key)->fence().str(), "000000000000002");
    }
}

}  // namespace
}  // namespace syncguard::test
