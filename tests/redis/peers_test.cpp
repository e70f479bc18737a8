/// Sharing locks with other SyncGuard programs, whose scripts read and write with cjson.
#include "redis/on_redis.hpp"

#include <syncguard/diagnostics.hpp>

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace syncguard::test {
namespace {

namespace json = boost::json;

/// A client that follows the specification and shares no code with this library.
class peer {
  public:
    explicit peer(const redis_server& server, std::string prefix = "syncguard")
        : server_(server), prefix_(std::move(prefix)) {}

    /// {1, fence, expiresAtMs} or 0.
    [[nodiscard]] redis_reply acquire(const std::string& key, const std::string& id,
                                      milliseconds ttl) const {
        static const std::string script = time_and_liveness + R"(
            local stored = redis.call('GET', KEYS[1])
            if stored and live(cjson.decode(stored).expiresAtMs) then return 0 end
            local fence = string.format('%015d', redis.call('INCR', KEYS[3]))
            local expiresAtMs = nowMs + tonumber(ARGV[2])
            local data = cjson.encode({lockId = ARGV[1], expiresAtMs = expiresAtMs,
                acquiredAtMs = nowMs, key = ARGV[3], fence = fence})
            redis.call('SET', KEYS[1], data, 'PX', tonumber(ARGV[2]))
            redis.call('SET', KEYS[2], KEYS[1], 'PX', tonumber(ARGV[2]))
            return {1, fence, expiresAtMs})";
        const std::string lock_key = prefix_ + ":" + key;
        return server_.command({"EVAL", script, "3", lock_key, prefix_ + ":id:" + id,
                                prefix_ + ":fence:" + lock_key, id, std::to_string(ttl.count()),
                                key});
    }
    [[nodiscard]] redis_reply release(const std::string& id) const {
        static const std::string script = find_owned + R"(
            redis.call('DEL', lockKey, KEYS[1])
            return 1)";
        return server_.command({"EVAL", script, "1", prefix_ + ":id:" + id, id});
    }
    [[nodiscard]] redis_reply extend(const std::string& id, milliseconds ttl) const {
        static const std::string script = find_owned + R"(
            data.expiresAtMs = nowMs + tonumber(ARGV[2])
            redis.call('SET', lockKey, cjson.encode(data), 'PX', tonumber(ARGV[2]))
            redis.call('SET', KEYS[1], lockKey, 'PX', tonumber(ARGV[2]))
            return {1, data.expiresAtMs})";
        return server_.command(
            {"EVAL", script, "1", prefix_ + ":id:" + id, id, std::to_string(ttl.count())});
    }

  private:
    inline static const std::string time_and_liveness = R"(
            local time = redis.call('TIME')
            local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
            local function live(expiresAtMs) return expiresAtMs > nowMs - 1000 end)";
    inline static const std::string find_owned = time_and_liveness + R"(
            local lockKey = redis.call('GET', KEYS[1])
            if not lockKey then return -1 end
            local stored = redis.call('GET', lockKey)
            if not stored then return -1 end
            local data = cjson.decode(stored)
            if data.lockId ~= ARGV[1] then return 0 end
            if not live(data.expiresAtMs) then return -2 end)";

    const redis_server& server_;
    const std::string prefix_;
};

const std::string their_id = "their-lock-id_AAAAAAAA";

class peers : public on_redis {
  protected:
    /// A lock as another program may have stored it, together with its index.
    void store(const std::string& key, const std::string& id, const std::string& value,
               milliseconds ttl) const {
        const std::string px = std::to_string(ttl.count());
        command({"SET", "syncguard:" + key, value, "PX", px});
        command({"SET", "syncguard:id:" + id, "syncguard:" + key, "PX", px});
    }
    [[nodiscard]] std::string value_of(const std::string& key) const {
        return command({"GET", "syncguard:" + key}).text;
    }
    /// The value of a field as a peer's cjson decodes it.
    [[nodiscard]] std::string decoded(const std::string& key, const std::string& field) const {
        return command({"EVAL",
                        "local v = cjson.decode(redis.call('GET', KEYS[1]))[ARGV[1]] "
                        "return type(v) == 'number' and string.format('%.0f', v) or v",
                        "1", "syncguard:" + key, field})
            .text;
    }
    /// Looks up, extends and releases a lock that another program wrote.
    void expect_understood(const std::string& key, const std::string& id, unix_time acquired,
                           unix_time expires, const std::string& fence) {
        const auto locks = open();
        EXPECT_FALSE(locks.acquire(key));
        EXPECT_TRUE(locks.is_locked(key));
        for (const auto& found : {get_by_key_raw(locks, key), get_by_id_raw(locks, id)}) {
            ASSERT_TRUE(found);
            EXPECT_EQ(found->key, key);
            EXPECT_EQ(found->lock_id, id);
            EXPECT_EQ(found->acquired_at, acquired);
            EXPECT_EQ(found->expires_at, expires);
            EXPECT_EQ(found->fence.str(), fence);
        }
        const auto extended = locks.extend(id, {.ttl = 77s});
        ASSERT_TRUE(extended.ok);
        EXPECT_EQ(extended.expires_at, server_.now() + 77s);
        EXPECT_EQ(decoded(key, "expiresAtMs"), digits(extended.expires_at));
        EXPECT_EQ(decoded(key, "acquiredAtMs"), digits(acquired));
        EXPECT_EQ(decoded(key, "lockId"), id);
        EXPECT_EQ(decoded(key, "key"), key);
        EXPECT_EQ(decoded(key, "fence"), fence);
        EXPECT_EQ(get_by_id_raw(locks, id)->acquired_at, acquired);
        EXPECT_EQ(get_by_id_raw(locks, id)->expires_at, extended.expires_at);
        EXPECT_TRUE(locks.release(id).ok);
        EXPECT_FALSE(locks.is_locked(key));
        EXPECT_TRUE(command({"GET", "syncguard:id:" + id}).is_null);
    }
};

TEST_F(peers, a_lock_of_a_peer_is_respected_read_extended_and_released) {
    const peer other(server_);
    for (const std::string key : {"k", "a/b", R"(a"b\c)", "line\r\nline", "schlüssel-鍵-🔑",
                                  R"(","expiresAtMs":1,"lockId":"x)"}) {
        SCOPED_TRACE(key);
        const auto now = server_.now();
        const auto granted = other.acquire(key, their_id, 10s);
        ASSERT_EQ(granted.list.size(), 3U) << granted.text;
        EXPECT_EQ(granted.list[1].text, "000000000000001");
        expect_understood(key, their_id, now, now + 10s, "000000000000001");
    }
}

TEST_F(peers, an_escaped_slash_is_understood) {
    (void)peer(server_).acquire("a/b", their_id, 10s);
    EXPECT_NE(value_of("a/b").find(R"("a\/b")"), std::string::npos) << value_of("a/b");
}

TEST_F(peers, a_key_with_a_nul_is_understood_too) {
    const std::string key("a\0b", 3);
    const auto now = server_.now();
    (void)peer(server_).acquire(key, their_id, 10s);
    expect_understood(key, their_id, now, now + 10s, "000000000000001");
}

TEST_F(peers, grants_of_both_implementations_use_one_counter) {
    const peer other(server_);
    const auto locks = open();
    ASSERT_TRUE(locks.release(take(locks, "k")).ok);
    EXPECT_EQ(other.acquire("k", their_id, 10s).list.at(1).text, "000000000000002");
    ASSERT_EQ(other.release(their_id).integer, 1);
    EXPECT_EQ(locks.acquire("k")->fence().str(), "000000000000003");
}

TEST_F(peers, fields_may_be_in_any_order) {
    const auto now = server_.now();
    std::array<std::string, 5> fields{
        R"("acquiredAtMs":)" + digits(now), R"("expiresAtMs":)" + digits(now + 10s),
        R"("fence":"000000000000042")", R"("key":"k")", R"("lockId":")" + their_id + '"'};
    int orders = 0;
    do {
        std::string value = "{";
        for (const auto& field : fields)
            value += (value.size() > 1 ? "," : "") + field;
        SCOPED_TRACE(value += "}");
        store("k", their_id, value, 10s);
        expect_understood("k", their_id, now, now + 10s, "000000000000042");
        ++orders;
    } while (std::next_permutation(fields.begin(), fields.end()));
    EXPECT_EQ(orders, 120);
}

TEST_F(peers, numbers_may_be_written_like_fractions_or_powers) {
    const unix_time acquired{1'700'000'000'000ms};
    server_.advance(acquired - server_.now());
    for (const auto& [written_acquired, written_expires] :
         {std::pair("1700000000000.0", "1700000010000.0"), std::pair("1.7e12", "1.70000001e12"),
          std::pair("1.7e+12", "1.70000001E+12"), std::pair("17E11", "170000001e4")}) {
        SCOPED_TRACE(written_expires);
        store("k", their_id,
              R"({"lockId":")" + their_id + R"(","expiresAtMs":)" + written_expires +
                  R"(,"acquiredAtMs":)" + written_acquired +
                  R"(,"key":"k","fence":"000000000000007"})",
              10s);
        expect_understood("k", their_id, acquired, acquired + 10s, "000000000000007");
    }
}

TEST_F(peers, white_space_and_fields_of_later_versions_are_accepted_and_kept) {
    const auto now = server_.now();
    const std::string ours = R"("lockId":")" + their_id + R"(","expiresAtMs":)" +
                             digits(now + 10s) + R"(,"acquiredAtMs":)" + digits(now) +
                             R"(,"key":"k","fence":"000000000000007")";
    const std::string spaced = R"("lockId" : ")" + their_id + R"(" , "expiresAtMs" : )" +
                               digits(now + 10s) + R"( , "acquiredAtMs" : )" + digits(now) +
                               R"( , "key" : "k" , "fence" : "000000000000007")";
    const std::string more =
        R"("version":3,"tags":["x","y"],"meta":{"expiresAtMs":1,"lockId":"no"},)"
        R"("on":true,"off":false,"none":null,"host":"a\/b")";
    const auto before_fence = ours.find(R"("fence")");
    for (const auto& value :
         {"{" + ours.substr(0, before_fence) + more + "," + ours.substr(before_fence) + "}",
          "{" + ours + "," + more + "}", "{" + more + "," + ours + "}",
          "{" + spaced + "," + more + " }", "\n{ " + more + " , " + spaced + "\n}\n"}) {
        SCOPED_TRACE(value);
        store("k", their_id, value, 10s);
        ASSERT_TRUE(open().extend(their_id, {.ttl = 50s}).ok);
        auto expected = json::parse(value).as_object();
        expected.at("expiresAtMs") = (now + 50s).time_since_epoch().count();
        EXPECT_EQ(json::parse(value_of("k")), json::value(expected)) << value_of("k");
        expect_understood("k", their_id, now, now + 50s, "000000000000007");
    }
}

/// cjson supports neither empty lists nor long numbers.
TEST_F(peers, values_that_cjson_cannot_write_are_kept_unchanged) {
    const auto now = server_.now();
    const auto value = [&](unix_time expires) {
        return R"({"serial":12345678901234567890, "none":[], "deep":[[],{}],"expiresAtMs" : )" +
               digits(expires) + R"(,"lockId":")" + their_id + R"(","acquiredAtMs":)" +
               digits(now) + R"(,"key":"\"expiresAtMs\":1","fence":"000000000000007"})";
    };
    store("k", their_id, value(now + 10s), 10s);
    ASSERT_TRUE(open().extend(their_id, {.ttl = 50s}).ok);
    EXPECT_EQ(value_of("k"), value(now + 50s));
}

TEST_F(peers, a_number_of_any_form_is_replaced_as_a_whole) {
    for (const char* written : {"9e15", "9.007e+15", "0x1fffffffffffff"}) {
        SCOPED_TRACE(written);
        store("k", their_id,
              R"({"lockId":")" + their_id + R"(","expiresAtMs":)" + written +
                  R"(,"acquiredAtMs":1,"key":"k","fence":"000000000000007"})",
              10s);
        ASSERT_TRUE(open().extend(their_id, {.ttl = 50s}).ok);
        EXPECT_EQ(json::parse(value_of("k")).at("expiresAtMs"),
                  (server_.now() + 50s).time_since_epoch().count());
    }
}

TEST_F(peers, locks_of_this_library_are_extended_and_released_by_a_peer) {
    const peer other(server_);
    const auto locks = open();
    for (const std::string key : {"k", "a/b", R"(a"b\c)", "line\r\nline", "schlüssel-鍵-🔑"}) {
        SCOPED_TRACE(key);
        const auto acquired = server_.now();
        const auto id = take(locks, key, 10s).to_string();
        EXPECT_EQ(decoded(key, "key"), key);
        EXPECT_EQ(decoded(key, "expiresAtMs"), digits(acquired + 10s));
        EXPECT_EQ(decoded(key, "acquiredAtMs"), digits(acquired));
        EXPECT_EQ(decoded(key, "lockId"), id);
        EXPECT_EQ(decoded(key, "fence"), "000000000000001");

        const auto refused = other.acquire(key, their_id, 10s);
        EXPECT_TRUE(refused.list.empty());
        EXPECT_EQ(refused.integer, 0);
        EXPECT_EQ(other.release(their_id).integer, -1);
        server_.advance(3s);
        ASSERT_EQ(other.extend(id, 20s).list.size(), 2U);
        const auto found = get_by_id_raw(locks, id);
        ASSERT_TRUE(found);
        EXPECT_EQ(found->key, key);
        EXPECT_EQ(found->expires_at, server_.now() + 20s);
        EXPECT_EQ(found->acquired_at, acquired);
        ASSERT_TRUE(locks.extend(id, {.ttl = 25s}).ok);
        ASSERT_EQ(other.extend(id, 30s).list.size(), 2U);
        EXPECT_EQ(other.release(id).integer, 1);
        EXPECT_FALSE(locks.is_locked(key));
        EXPECT_FALSE(locks.release(id).ok);
    }
}

TEST_F(peers, a_lock_with_a_new_owner_is_not_changed_through_an_old_index) {
    const auto locks = open();
    const auto id = take(locks, "k");
    command({"SET", "syncguard:id:" + their_id, "syncguard:k"});
    const auto before = contents();
    EXPECT_FALSE(locks.release(their_id).ok);
    EXPECT_FALSE(locks.extend(their_id).ok);
    EXPECT_FALSE(locks.lookup(ownership_lookup{their_id}));
    EXPECT_EQ(contents(), before);
    EXPECT_TRUE(locks.release(id).ok);
}

/// Redis itself removes a lock at its end, so the tolerance matters only if a peer's key lives
/// longer.
TEST_F(peers, liveness_is_the_same_for_a_value_that_outlives_its_lock) {
    const auto locks = open();
    const auto expires = server_.now() + 10s;
    store("k", their_id, lock_json(their_id, expires, server_.now(), R"("k")", "000000000000001"),
          1h);
    server_.advance(10s + 999ms);
    EXPECT_TRUE(locks.is_locked("k"));
    EXPECT_FALSE(locks.acquire("k"));
    EXPECT_TRUE(locks.lookup(ownership_lookup{their_id}));
    EXPECT_TRUE(locks.lookup(key_lookup{"k"}));
    server_.advance(1ms);
    EXPECT_FALSE(locks.is_locked("k"));
    EXPECT_FALSE(locks.lookup(ownership_lookup{their_id}));
    EXPECT_FALSE(locks.lookup(key_lookup{"k"}));
    EXPECT_FALSE(locks.extend(their_id).ok);
    EXPECT_FALSE(locks.release(their_id).ok);
    EXPECT_TRUE(locks.acquire("k"));
}

}  // namespace
}  // namespace syncguard::test
