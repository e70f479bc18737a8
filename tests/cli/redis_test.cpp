/// The commands on a Redis server.
#include "cli/workspace.hpp"
#include "support/fault_proxy.hpp"
#include "support/redis_server.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace syncguard::cli::test {

namespace {

class commands_on_redis : public command_test {
  protected:
    [[nodiscard]] finished on_redis(std::vector<std::string> arguments) const {
        arguments.insert(arguments.begin() + 1, {"--backend", server_.url()});
        return syncguard(arguments);
    }

    syncguard::test::redis_server server_;
};

TEST_F(commands_on_redis, share_one_lock_from_acquire_to_release) {
    const auto acquired = on_redis({"acquire", "k", "--ttl", "1m"});
    ASSERT_EQ(0, acquired.exit_code) << acquired.err;
    const auto id = labelled(acquired.out, "lock-id");
    EXPECT_EQ("000000000000001", labelled(acquired.out, "fence"));
    EXPECT_EQ("syncguard:k", server_.command({"GET", "syncguard:id:" + id}).text);

    EXPECT_EQ(75, on_redis({"acquire", "k"}).exit_code);
    EXPECT_EQ(75, on_redis({"run", "-n", "k", "--", "true"}).exit_code);
    EXPECT_EQ("locked\n", on_redis({"status", "k"}).out);
    const auto found = json_of(on_redis({"lookup", "--id", id, "--raw", "--json"}).out);
    EXPECT_EQ("k", found.at("key").as_string());
    EXPECT_EQ(60'000, found.at("expiresAtMs").as_int64() - found.at("acquiredAtMs").as_int64());
    EXPECT_EQ(0, on_redis({"extend", id, "--ttl", "5m"}).exit_code);
    EXPECT_GT(server_.command({"PTTL", "syncguard:k"}).integer, 240'000);
    EXPECT_EQ(0, on_redis({"release", id}).exit_code);
    EXPECT_EQ("free\n", on_redis({"status", "k"}).out);
    EXPECT_NE(0, on_redis({"release", id}).exit_code);
}

TEST_F(commands_on_redis, run_holds_the_lock_while_its_command_runs) {
    const auto result = start_script({"--backend", server_.url() + "/5?prefix=app", "k"},
                                     "redis-cli -p " + std::to_string(server_.port()) +
                                         " -n 5 exists app:k; echo $SYNCGUARD_FENCE")
                            ->wait();
    EXPECT_EQ(0, result.exit_code) << result.err;
    EXPECT_EQ("1\n000000000000001\n", result.out);
    EXPECT_EQ(0, server_
                     .command({"EVAL",
                               "redis.call('SELECT', 5) "
                               "return redis.call('EXISTS', 'app:k')",
                               "0"})
                     .integer);
}

TEST_F(commands_on_redis, run_does_not_start_its_command_if_the_grant_arrives_after_the_timeout) {
    syncguard::test::fault_proxy proxy(server_.port());
    proxy.delay(syncguard::test::direction::to_client, milliseconds{700});
    const auto result =
        syncguard({"run", "--backend", "redis://127.0.0.1:" + std::to_string(proxy.port()), "--ttl",
                   "600ms", "-w", "0", "k", "--", "touch", file("ran").string()});
    EXPECT_NE(0, result.exit_code);
    EXPECT_NE(std::string::npos, result.err.find("the answer came when its time was over"))
        << result.err;
    EXPECT_FALSE(std::filesystem::exists(file("ran")));
}

TEST_F(commands_on_redis, the_environment_names_the_server) {
    const start_options environment{.environment = {{"SYNCGUARD_BACKEND", server_.url()}}};
    EXPECT_EQ(0, syncguard({"acquire", "k"}, environment).exit_code);
    EXPECT_EQ("locked\n", syncguard({"status", "k"}, environment).out);
    EXPECT_EQ("free\n", syncguard({"status", "k"}).out);
}

TEST_F(commands_on_redis, run_does_not_wait_for_ever_for_a_server_that_never_answered) {
    // The server does not support TLS and never answers a TLS handshake.
    const auto result = syncguard(
        {"run", "--backend",
         "rediss://127.0.0.1:" + std::to_string(server_.port()) + "?connect_timeout_ms=300", "k",
         "--", "true"});
    EXPECT_EQ(69, result.exit_code) << result.err;
}

TEST_F(commands_on_redis, a_server_that_is_down_is_named_and_its_password_is_not) {
    server_.kill();
    const auto place = "127.0.0.1:" + std::to_string(server_.port());
    const auto result = syncguard({"status", "k", "--backend", "redis://:hunter2@" + place});
    EXPECT_NE(0, result.exit_code);
    EXPECT_NE(1, result.exit_code);
    EXPECT_NE(std::string::npos, result.err.find(place)) << result.err;
    EXPECT_EQ(std::string::npos, result.err.find("hunter2")) << result.err;
}

}  // namespace

}  // namespace syncguard::cli::test
