#include "support/redis_server.hpp"

#include "support/child_process.hpp"
#include "support/eventually.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <system_error>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;

TEST(redis_server_test, answers_on_its_port_and_on_its_socket) {
    const redis_server server;
    EXPECT_EQ(redis_connection(server.port()).command({"PING"}).text, "PONG");
    EXPECT_EQ(redis_connection(server.socket_path()).command({"PING"}).text, "PONG");
    EXPECT_EQ(server.url(), "redis://127.0.0.1:" + std::to_string(server.port()));
}

TEST(redis_server_test, every_kind_of_reply_is_parsed) {
    using namespace std::string_literals;
    const redis_server server;
    const std::string binary = "a\0b\r\n$-1\r\n\xFF"s;
    EXPECT_EQ(server.command({"SET", binary, binary}).text, "OK");
    EXPECT_EQ(server.command({"GET", binary}).text, binary);
    EXPECT_TRUE(server.command({"GET", "nothing"}).is_null);
    EXPECT_EQ(server.command({"INCRBY", "n", "-7"}).integer, -7);
    EXPECT_TRUE(server.command({"INCR", binary}).is_error);
    EXPECT_EQ(server.command({"GET", "n"}).text, "-7");
    const auto list = server.command({"EVAL", "return {1, {'x', false}, ''}", "0"}).list;
    ASSERT_EQ(list.size(), 3U);
    EXPECT_EQ(list[0].integer, 1);
    ASSERT_EQ(list[1].list.size(), 2U);
    EXPECT_EQ(list[1].list[0].text, "x");
    EXPECT_TRUE(list[1].list[1].is_null);
    EXPECT_EQ(list[2].text, "");
    EXPECT_FALSE(list[2].is_null);
}

TEST(redis_server_test, servers_do_not_share_anything) {
    const redis_server one;
    const redis_server other;
    one.command({"SET", "k", "v"});
    EXPECT_TRUE(other.command({"GET", "k"}).is_null);
}

TEST(redis_server_test, after_a_crash_it_restarts_empty_on_the_same_port) {
    redis_server server;
    const auto port = server.port();
    server.command({"SET", "k", "v"});
    server.kill();
    EXPECT_THROW(redis_connection{port}, std::runtime_error);
    server.restart();
    EXPECT_EQ(server.port(), port);
    EXPECT_TRUE(redis_connection(port).command({"GET", "k"}).is_null);
}

TEST(redis_server_test, with_an_append_only_file_it_restarts_with_its_data) {
    redis_server server({.arguments = {"--appendonly", "yes", "--appendfsync", "always"}});
    server.command({"SET", "k", "v"});
    server.restart();
    EXPECT_EQ(server.command({"GET", "k"}).text, "v");
}

TEST(redis_server_test, a_paused_server_is_silent_until_it_is_resumed) {
    const redis_server server;
    redis_connection impatient(server.port(), 50ms);
    server.pause();
    impatient.send({"PING"});
    EXPECT_THROW((void)impatient.receive(), std::runtime_error);
    redis_connection connected_meanwhile(server.port());
    connected_meanwhile.send({"PING"});
    server.resume();
    EXPECT_EQ(connected_meanwhile.receive().text, "PONG");
}

TEST(redis_server_test, commands_authenticate_if_a_password_is_set) {
    const redis_server server({.arguments = {"--requirepass", "a secret"}, .password = "a secret"});
    EXPECT_EQ(server.command({"PING"}).text, "PONG");
    EXPECT_TRUE(redis_connection(server.port()).command({"PING"}).is_error);
}

TEST(redis_server_test, commands_authenticate_as_a_user) {
    const redis_server server(
        {.arguments = {"--user", "worker", "on", ">pw", "~*", "+@all", "--user", "default", "off"},
         .username = "worker",
         .password = "pw"});
    EXPECT_EQ(server.command({"ACL", "WHOAMI"}).text, "worker");
    EXPECT_TRUE(redis_connection(server.port()).command({"PING"}).is_error);
}

TEST(redis_server_test, a_server_that_cannot_start_reports_the_reason) {
    try {
        const redis_server server({.arguments = {"--no-such-option", "yes"}});
        FAIL() << "it started";
    } catch (const std::runtime_error& failure) {
        EXPECT_NE(std::string(failure.what()).find("no-such-option"), std::string::npos)
            << failure.what();
    }
}

bool is_refused(std::uint16_t port) {
    try {
        (void)connect_to_loopback(port);
        return false;
    } catch (const std::system_error&) {
        return true;
    }
}

TEST(redis_server_test, ends_with_its_owner) {
    std::uint16_t port = 0;
    {
        const redis_server server;
        port = server.port();
    }
    EXPECT_TRUE(is_refused(port));
}

TEST(redis_server_test, ends_with_a_test_that_crashes) {
    const temporary_folder folder;
    const auto started = folder / "port";
    child_process test([&] {
        // Files that the crashed server leaves behind are removed with this test's folder.
        ::setenv("TMPDIR", folder.path().c_str(), 1);
        const redis_server server;
        std::ofstream(folder / "unfinished") << server.port();
        std::filesystem::rename(folder / "unfinished", started);
        ::pause();
        return 0;
    });
    ASSERT_TRUE(eventually([&] { return std::filesystem::exists(started); }));
    std::uint16_t port = 0;
    std::ifstream(started) >> port;
    EXPECT_FALSE(is_refused(port));
    test.kill(SIGKILL);
    EXPECT_TRUE(eventually([&] { return is_refused(port); }));
}

}  // namespace
}  // namespace syncguard::test
