/// Refusals by real servers: the error that a caller gets, and what stays stored.
#include "redis/on_redis.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"

#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

const std::string secret_key = "secret-key";
const std::string password = "hunter2-hunter2";

/// Expects a refusal with this code. Returns its message, which must name the server and contain no
/// secret.
std::string refusal(error_code code, const std::function<void()>& action) {
    const auto failure = expect_error(code, action);
    if (!failure) return "";
    const std::string message = failure->what();
    EXPECT_NE(message.find("Redis at "), std::string::npos) << message;
    EXPECT_EQ(message.find(secret_key), std::string::npos) << message;
    EXPECT_EQ(message.find("syncguard:id:"), std::string::npos) << message;
    EXPECT_EQ(message.find(password), std::string::npos) << message;
    return message;
}

void expect_mention(const std::string& message, const std::string& words) {
    EXPECT_NE(message.find(words), std::string::npos) << message;
}

class refusing_redis : public testing::Test {
  protected:
    void command(const std::vector<std::string>& arguments) const {
        const auto reply = server_.command(arguments);
        if (reply.is_error) throw std::runtime_error(reply.text);
    }
    [[nodiscard]] redis::backend open(redis::options store = {}) const {
        store.port = server_.port();
        return redis::backend(std::move(store));
    }
    static lock_id take(const redis::backend& locks, std::string_view key) {
        return locks.acquire(key)->detach();
    }

    const redis_server server_{
        {.arguments = {"--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes"}}};
};

TEST_F(refusing_redis, a_full_server_grants_nothing_but_still_releases_and_extends) {
    const auto locks = open();
    const auto held = take(locks, "held");
    auto lease = locks.acquire("lease");
    const auto before = contents_of(server_).size();
    command({"CONFIG", "SET", "maxmemory", "1"});
    for (int i = 0; i < 3; ++i) {
        expect_mention(
            refusal(error_code::service_unavailable, [&] { (void)locks.acquire(secret_key); }),
            "maxmemory");
    }
    EXPECT_EQ(contents_of(server_).size(), before);
    EXPECT_TRUE(locks.extend(held, {.ttl = 600s}).ok);
    EXPECT_GT(contents_of(server_).at("syncguard:held").ttl_ms, 500'000);
    EXPECT_GT(contents_of(server_).at("syncguard:id:" + held.to_string()).ttl_ms, 500'000);
    EXPECT_TRUE(lease->extend({.ttl = 600s}).ok);
    EXPECT_GT(contents_of(server_).at("syncguard:lease").ttl_ms, 500'000);
    EXPECT_TRUE(locks.is_locked("held"));
    EXPECT_FALSE(locks.is_locked(secret_key));
    EXPECT_TRUE(locks.lookup(ownership_lookup{held}));
    EXPECT_TRUE(locks.release(held).ok);
    EXPECT_TRUE(lease->release().ok);
    EXPECT_FALSE(locks.is_locked("lease"));
    command({"CONFIG", "SET", "maxmemory", "0"});
    EXPECT_EQ(locks.acquire(secret_key)->fence().str(), "000000000000001");
}

TEST_F(refusing_redis, a_server_that_cannot_save_grants_nothing) {
    const auto locks = open();
    command({"CONFIG", "SET", "save", "3600 1"});
    // The saved data cannot replace this non-empty folder.
    std::filesystem::create_directories(server_.socket_path().parent_path() / "dump.rdb" / "full");
    command({"BGSAVE"});
    ASSERT_TRUE(eventually([&] {
        return server_.command({"INFO", "persistence"}).text.find("bgsave_status:err") !=
               std::string::npos;
    }));
    expect_mention(
        refusal(error_code::service_unavailable, [&] { (void)locks.acquire(secret_key); }),
        "MISCONF");
    EXPECT_TRUE(contents_of(server_).empty());
    EXPECT_FALSE(locks.is_locked(secret_key));
    command({"CONFIG", "SET", "stop-writes-on-bgsave-error", "no"});
    EXPECT_TRUE(locks.acquire(secret_key));
}

TEST_F(refusing_redis, a_server_without_its_replicas_grants_nothing) {
    const auto locks = open();
    const auto held = take(locks, "held");
    command({"CONFIG", "SET", "min-replicas-to-write", "1"});
    expect_mention(
        refusal(error_code::service_unavailable, [&] { (void)locks.acquire(secret_key); }),
        "NOREPLICAS");
    refusal(error_code::service_unavailable, [&] { (void)locks.release(held); });
    refusal(error_code::service_unavailable, [&] { (void)locks.extend(held); });
    EXPECT_TRUE(locks.is_locked("held"));
    command({"CONFIG", "SET", "min-replicas-to-write", "0"});
    EXPECT_TRUE(locks.release(held).ok);
    EXPECT_EQ(contents_of(server_).size(), 1U);
}

TEST_F(refusing_redis, a_replica_answers_only_queries) {
    const auto locks = open();
    const auto held = take(locks, "held");
    redis_server replica(
        {.arguments = {"--replicaof", "127.0.0.1 " + std::to_string(server_.port())}});
    ASSERT_TRUE(eventually([&] { return contents_of(replica).size() == 3; }));
    const redis::backend reading({.port = replica.port()});
    expect_mention(
        refusal(error_code::service_unavailable, [&] { (void)reading.acquire(secret_key); }),
        "connect to the primary");
    refusal(error_code::service_unavailable, [&] { (void)reading.release(held); });
    refusal(error_code::service_unavailable, [&] { (void)reading.extend(held); });
    EXPECT_TRUE(reading.is_locked("held"));
    EXPECT_TRUE(reading.lookup(ownership_lookup{held}));
    EXPECT_FALSE(reading.acquire("held"));
    EXPECT_EQ(contents_of(server_).size(), 3U);
}

TEST_F(refusing_redis, a_replica_that_has_lost_its_primary_may_answer_nothing) {
    const auto locks = open();
    (void)locks.is_locked("k");
    const reserved_port no_primary;
    command({"CONFIG", "SET", "replica-serve-stale-data", "no"});
    command({"REPLICAOF", "127.0.0.1", std::to_string(no_primary.number())});
    for (const auto& each : {locks, open()}) {
        expect_mention(
            refusal(error_code::service_unavailable, [&] { (void)each.is_locked(secret_key); }),
            "MASTERDOWN");
        refusal(error_code::service_unavailable, [&] { (void)each.acquire(secret_key); });
    }
}

TEST_F(refusing_redis, a_server_in_a_long_script_is_busy) {
    const auto locks = open();
    const auto held = take(locks, "held");
    command({"CONFIG", "SET", "busy-reply-threshold", "1"});
    redis_connection other(server_.port());
    other.send({"EVAL", "while true do end", "0"});
    ASSERT_TRUE(eventually([&] { return server_.command({"PING"}).is_error; }));
    for (const auto& each : {locks, open()}) {
        expect_mention(
            refusal(error_code::service_unavailable, [&] { (void)each.acquire(secret_key); }),
            "BUSY");
        refusal(error_code::service_unavailable, [&] { (void)each.release(held); });
    }
    command({"SCRIPT", "KILL"});
    EXPECT_TRUE(other.receive().is_error);
    EXPECT_FALSE(locks.is_locked(secret_key));
    EXPECT_TRUE(locks.release(held).ok);
}

TEST_F(refusing_redis, a_server_that_loads_its_data_is_not_ready) {
    const auto locks = open();
    redis_connection other(server_.port());
    for (int i = 0; i < 50; ++i)
        other.command({"SET", "filling " + std::to_string(i), std::string(2'000, 'x')});
    command({"CONFIG", "SET", "rdbcompression", "no", "key-load-delay", "20000",
             "loading-process-events-interval-bytes", "1024"});
    other.send({"DEBUG", "RELOAD"});
    ASSERT_TRUE(eventually([&] {
        const auto reply = server_.command({"PING"});
        return reply.is_error && reply.text.starts_with("LOADING");
    }));
    expect_mention(
        refusal(error_code::service_unavailable, [&] { (void)locks.acquire(secret_key); }),
        "still loading");
    EXPECT_EQ(other.receive().text, "OK");
    EXPECT_TRUE(locks.acquire(secret_key));
}

TEST_F(refusing_redis, a_server_with_too_many_clients_limits_the_rate) {
    redis_connection administrator(server_.socket_path());
    administrator.command({"CONFIG", "SET", "maxclients", "1"});
    const auto locks = open();
    expect_mention(refusal(error_code::rate_limited, [&] { (void)locks.acquire(secret_key); }),
                   "maxclients");
    administrator.command({"CONFIG", "SET", "maxclients", "100"});
    EXPECT_TRUE(locks.acquire(secret_key));
}

TEST_F(refusing_redis, a_missing_database_is_an_invalid_argument) {
    const auto locks = open({.database = 99});
    expect_mention(refusal(error_code::invalid_argument, [&] { (void)locks.is_locked("k"); }),
                   "database");
}

TEST_F(refusing_redis, a_server_without_scripts_repeats_no_keys) {
    const redis_server old({.arguments = {"--rename-command", "EVALSHA", ""}});
    const redis::backend locks({.port = old.port()});
    expect_mention(refusal(error_code::internal, [&] { (void)locks.acquire(secret_key); }),
                   "EVALSHA");
    refusal(error_code::internal, [&] { (void)locks.release("AAAAAAAAAAAAAAAAAAAAAA"); });
}

class forbidding_redis : public refusing_redis {
  protected:
    /// A backend that logs in as a user with these rights.
    [[nodiscard]] redis::backend open_as(const std::vector<std::string>& rights) const {
        std::vector<std::string> rule{"ACL", "SETUSER", "worker", "reset", "on", ">" + password};
        rule.insert(rule.end(), rights.begin(), rights.end());
        command(rule);
        return open({.username = "worker", .password = password});
    }
};

TEST_F(forbidding_redis, credentials_that_are_wrong_or_missing) {
    const auto wrong = open({.username = "nobody", .password = password});
    expect_mention(refusal(error_code::auth_failed, [&] { (void)wrong.acquire(secret_key); }),
                   "WRONGPASS");
    command({"CONFIG", "SET", "requirepass", "another"});
    const auto missing = open();
    expect_mention(refusal(error_code::auth_failed, [&] { (void)missing.acquire(secret_key); }),
                   "NOAUTH");
    const auto wrong_default = open({.password = password});
    refusal(error_code::auth_failed, [&] { (void)wrong_default.acquire(secret_key); });
    EXPECT_TRUE(open({.password = "another"}).acquire(secret_key));
}

TEST_F(forbidding_redis, the_rights_named_in_messages_suffice) {
    const auto locks = open_as(
        {"~syncguard:*", "+eval", "+evalsha", "+time", "+get", "+set", "+del", "+incr", "+decr"});
    const auto id = take(locks, secret_key);
    EXPECT_TRUE(locks.is_locked(secret_key));
    EXPECT_TRUE(locks.lookup(key_lookup{secret_key}));
    EXPECT_TRUE(locks.lookup(ownership_lookup{id}));
    EXPECT_TRUE(locks.extend(id).ok);
    EXPECT_TRUE(locks.release(id).ok);
    command({"SCRIPT", "FLUSH"});
    EXPECT_TRUE(locks.acquire(secret_key));
    for (const std::string counter : {"900000000000000", "-5", "9223372036854775806"}) {
        command({"SET", "syncguard:fence:syncguard:k", counter});
        EXPECT_THROW((void)locks.acquire("k"), lock_error);
        EXPECT_EQ(contents_of(server_).at("syncguard:fence:syncguard:k").value, counter);
    }
}

TEST_F(forbidding_redis, those_rights_suffice_for_batches) {
    const auto locks = open_as(
        {"~syncguard:*", "+eval", "+evalsha", "+time", "+get", "+set", "+del", "+incr", "+decr"});
    (void)locks.is_locked("k");
    server_.pause();
    std::vector<std::future<void>> calls;
    for (int i = 0; i < 20; ++i) {
        calls.push_back(std::async(std::launch::async, [&, i] {
            auto lease = locks.acquire("k" + std::to_string(i));
            ASSERT_TRUE(lease);
            EXPECT_TRUE(lease->release().ok);
        }));
    }
    server_.resume();
    for (auto& each : calls)
        each.get();
    EXPECT_EQ(contents_of(server_).size(), 20U) << "only the counters are left";
}

TEST_F(forbidding_redis, without_any_of_them_nothing_is_locked_and_permissions_are_named) {
    for (const std::string missing :
         {"-eval", "-evalsha", "-time", "-get", "-set", "-incr", "~other:*"}) {
        SCOPED_TRACE(missing);
        command({"FLUSHALL"});
        command({"SCRIPT", "FLUSH"});
        const auto locks = missing.starts_with('~') ? open_as({missing, "+@all"})
                                                    : open_as({"~syncguard:*", "+@all", missing});
        expect_mention(refusal(error_code::auth_failed, [&] { (void)locks.acquire(secret_key); }),
                       "permission");
        auto left = contents_of(server_);
        left.erase("syncguard:fence:syncguard:" + secret_key);
        EXPECT_TRUE(left.empty());
    }
}

/// Rights to write the lock but not its index, or the reverse.
TEST_F(forbidding_redis, rights_to_only_one_of_lock_and_index_leave_nothing_locked) {
    for (const std::string writable : {"~syncguard:k*", "~syncguard:id:*"}) {
        for (const int count : {1, 20}) {
            SCOPED_TRACE(writable + " " + std::to_string(count));
            command({"FLUSHALL"});
            const auto locks =
                open_as({"~syncguard:*", "+eval", "+evalsha", "+get", "+time", "+del", "+incr",
                         "+decr", "+exists", "+mget", "(+set " + writable + ")"});
            (void)locks.is_locked("k");
            server_.pause();
            std::vector<std::future<void>> calls;
            for (int i = 0; i < count; ++i) {
                calls.push_back(std::async(std::launch::async, [&, i] {
                    refusal(error_code::auth_failed,
                            [&] { (void)locks.acquire("k" + std::to_string(i)); });
                }));
            }
            server_.resume();
            for (auto& each : calls)
                each.get();
            auto left = contents_of(server_);
            std::erase_if(left, [](const auto& entry) {
                return entry.first.starts_with("syncguard:fence:");
            });
            EXPECT_TRUE(left.empty());
        }
    }
}

TEST_F(forbidding_redis, an_extension_without_the_right_to_the_index_changes_nothing) {
    const auto id = take(open(), "k");
    command({"PEXPIRE", "syncguard:k", "600000"});
    const auto locks =
        open_as({"~syncguard:*", "+eval", "+evalsha", "+get", "+time", "(+set ~syncguard:k*)"});
    refusal(error_code::auth_failed, [&] { (void)locks.extend(id, {.ttl = 5s}); });
    EXPECT_GT(contents_of(server_).at("syncguard:k").ttl_ms, 60'000);
}

TEST_F(forbidding_redis, without_the_right_to_pexpire_only_a_full_server_refuses_extensions) {
    const auto locks = open_as(
        {"~syncguard:*", "+eval", "+evalsha", "+time", "+get", "+set", "+del", "+incr", "+decr"});
    const auto id = take(locks, "k");
    EXPECT_TRUE(locks.extend(id).ok);
    const auto before = contents_of(server_).at("syncguard:k").value;
    command({"CONFIG", "SET", "maxmemory", "1"});
    expect_mention(refusal(error_code::service_unavailable, [&] { (void)locks.extend(id); }),
                   "maxmemory");
    EXPECT_EQ(contents_of(server_).at("syncguard:k").value, before);
    command({"CONFIG", "SET", "maxmemory", "0"});
    EXPECT_TRUE(locks.extend(id).ok);
}

TEST_F(forbidding_redis, the_right_to_choose_a_database_is_named) {
    (void)open_as({"~syncguard:*", "+@all", "-select"});
    const auto locks = open({.username = "worker", .password = password, .database = 3});
    expect_mention(refusal(error_code::auth_failed, [&] { (void)locks.acquire(secret_key); }),
                   "SELECT");
}

TEST_F(forbidding_redis, a_lock_that_may_not_be_read_or_removed_is_kept) {
    const auto id = take(open(), secret_key);
    for (const std::vector<std::string>& rights :
         {std::vector<std::string>{"~syncguard:*", "+@all", "-del", "-set"},
          std::vector<std::string>{"~syncguard:*", "+@all", "-get"},
          std::vector<std::string>{"~syncguard:id:*", "+@all"}}) {
        const auto locks = open_as(rights);
        expect_mention(refusal(error_code::auth_failed, [&] { (void)locks.release(id); }),
                       "permission");
        refusal(error_code::auth_failed, [&] { (void)locks.extend(id); });
    }
    EXPECT_EQ(contents_of(server_).size(), 3U);
}

TEST_F(forbidding_redis, one_forbidden_key_fails_alone_in_its_batch) {
    const auto locks =
        open_as({"~syncguard:ok*", "~syncguard:id:*", "~syncguard:fence:syncguard:ok*", "+@all"});
    (void)locks.is_locked("ok");
    server_.pause();
    std::vector<std::future<std::optional<error_code>>> calls;
    for (int i = 0; i < 20; ++i) {
        const auto key = (i % 7 == 3 ? "no" : "ok") + std::to_string(i);
        calls.push_back(std::async(std::launch::async, [&, key]() -> std::optional<error_code> {
            try {
                auto lease = locks.acquire(key);
                EXPECT_TRUE(lease);
                return std::nullopt;
            } catch (const lock_error& failure) {
                return failure.code();
            }
        }));
    }
    server_.resume();
    for (std::size_t i = 0; i < calls.size(); ++i) {
        const auto failed = calls[i].get();
        if (i % 7 == 3) {
            EXPECT_EQ(failed, error_code::auth_failed) << i;
        } else {
            EXPECT_FALSE(failed) << i << ": " << to_string(*failed);
        }
    }
}

TEST_F(forbidding_redis, continuous_extensions_do_not_delay_operations_sent_alone) {
    const auto locks =
        open_as({"~syncguard:ok*", "~syncguard:id:*", "~syncguard:fence:syncguard:ok*", "+@all"});
    std::vector<std::jthread> holders;
    for (int i = 0; i < 128; ++i) {
        holders.emplace_back([&, i](const std::stop_token& stop) {
            auto lease = locks.acquire("ok-held" + std::to_string(i), {.ttl = 60s});
            ASSERT_TRUE(lease);
            while (!stop.stop_requested())
                EXPECT_TRUE(lease->extend({.ttl = 60s}).ok);
        });
    }
    for (int round = 0; round < 5; ++round) {
        std::vector<std::jthread> callers;
        for (int i = 0; i < 20; ++i) {
            callers.emplace_back([&, key = "ok" + std::to_string(i)] {
                EXPECT_NO_THROW(EXPECT_TRUE(locks.acquire(key, {.ttl = 60s})));
            });
        }
        for (int i = 0; i < 20; ++i) {
            callers.emplace_back([&, key = "no" + std::to_string(i)] {
                expect_error(error_code::auth_failed, [&] { (void)locks.acquire(key); });
            });
        }
    }
}

TEST(redis_cluster, one_node_serves_a_prefix_with_a_hash_tag) {
    const redis_server node({.arguments = {"--cluster-enabled", "yes"}});
    const redis::backend spread({.port = node.port()});
    const redis::backend together({.port = node.port(), .prefix = "{syncguard}"});
    expect_mention(
        refusal(error_code::service_unavailable, [&] { (void)together.acquire(secret_key); }),
        "CLUSTERDOWN");
    node.command({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"});
    ASSERT_TRUE(eventually([&] {
        return node.command({"CLUSTER", "INFO"}).text.find("cluster_state:ok") != std::string::npos;
    }));
    expect_mention(refusal(error_code::invalid_argument, [&] { (void)spread.acquire(secret_key); }),
                   "{syncguard}");
    const auto id = together.acquire(secret_key)->detach();
    EXPECT_TRUE(together.is_locked(secret_key));
    EXPECT_TRUE(together.lookup(ownership_lookup{id}));
    EXPECT_TRUE(together.extend(id).ok);
    EXPECT_TRUE(together.release(id).ok);

    node.command({"CLUSTER", "DELSLOTSRANGE", "0", "16383"});
    ASSERT_TRUE(eventually([&] {
        try {
            (void)together.is_locked(secret_key);
            return false;
        } catch (const lock_error& failure) {
            return failure.code() == error_code::service_unavailable;
        }
    }));
}

}  // namespace
}  // namespace syncguard::test
