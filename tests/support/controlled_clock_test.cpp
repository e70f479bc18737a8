#include "support/eventually.hpp"
#include "support/redis_server.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;

auto host_time() {
    return std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
}

TEST(controlled_clock_test, starts_frozen_at_the_time_of_the_host) {
    const auto before = host_time();
    const redis_server server({.controlled_clock = true});
    const auto after = host_time();
    const auto frozen = server.now();
    EXPECT_GE(frozen, before);
    EXPECT_LE(frozen, after);
    ASSERT_TRUE(eventually([&] { return host_time() > after + 20ms; }));
    EXPECT_EQ(server.now(), frozen);
    // Whole milliseconds, so that rounded times are not off by one.
    EXPECT_EQ(std::stoll(server.command({"TIME"}).list.at(1).text) % 1000, 0);
}

TEST(controlled_clock_test, a_step_is_seen_at_once_and_survives_a_restart) {
    redis_server server({.controlled_clock = true});
    const auto begin = server.now();
    server.advance(90min);
    EXPECT_EQ(server.now(), begin + 90min);
    server.restart();
    EXPECT_EQ(server.now(), begin + 90min);
    server.advance(-91min);
    EXPECT_EQ(server.now(), begin - 1min);
}

TEST(controlled_clock_test, redis_keeps_a_value_until_its_last_millisecond) {
    redis_server server({.controlled_clock = true});
    server.command({"SET", "k", "v", "PX", "10000"});
    server.advance(10s);
    EXPECT_EQ(server.command({"GET", "k"}).text, "v");
    EXPECT_EQ(server.command({"PTTL", "k"}).integer, 0);
    server.advance(1ms);
    EXPECT_TRUE(server.command({"GET", "k"}).is_null);
}

TEST(controlled_clock_test, a_script_sees_the_same_time) {
    redis_server server({.controlled_clock = true});
    server.advance(1h);
    const auto time = server.command({"EVAL", "return redis.call('TIME')", "0"}).list;
    EXPECT_EQ(std::stoll(time.at(0).text) * 1000 + std::stoll(time.at(1).text) / 1000,
              server.now().time_since_epoch().count());
}

TEST(controlled_clock_test, a_frozen_server_answers_and_removes_expired_values) {
    redis_server server({.controlled_clock = true});
    for (int i = 0; i < 1000; ++i)
        server.command({"SET", "brief:" + std::to_string(i), "v", "PX", "1000"});
    server.command({"SET", "endless", "v"});
    EXPECT_EQ(server.command({"DBSIZE"}).integer, 1001);
    server.advance(1001ms);
    // No client reads these keys: the server's own expiry cycle removes them.
    EXPECT_TRUE(eventually([&] { return server.command({"DBSIZE"}).integer == 1; }));
    EXPECT_EQ(server.command({"GET", "endless"}).text, "v");
}

TEST(controlled_clock_test, a_running_clock_continues_after_a_step) {
    redis_server server({.controlled_clock = true});
    server.set_offset(1h);
    const auto ahead = [&] {
        const auto asked_first = server.now();
        return asked_first - host_time();
    };
    EXPECT_GT(ahead(), 59min);
    EXPECT_LE(ahead(), 1h);
    server.advance(1h);
    EXPECT_GT(ahead(), 119min);
    server.set_offset(-1h);
    EXPECT_LE(ahead(), -1h);
    server.command({"SET", "k", "v", "PX", "20"});
    EXPECT_TRUE(eventually([&] { return server.command({"GET", "k"}).is_null; }));
}

TEST(controlled_clock_test, a_server_without_a_controlled_clock_uses_the_host_clock) {
    redis_server server;
    const auto before = host_time();
    const auto now = server.now();
    EXPECT_GE(now, before);
    EXPECT_LE(now, host_time());
    EXPECT_THROW(server.advance(1s), std::logic_error);
}

}  // namespace
}  // namespace syncguard::test
