/// URLs and options of the Redis engine.
#include "redis/on_redis.hpp"
#include "support/expect_error.hpp"

#include <syncguard/connect.hpp>

#include <functional>
#include <string>
#include <vector>

namespace syncguard::test {
namespace {

using redis::options;
using redis::parse_url;

void expect_same(const options& read, const options& expected) {
    EXPECT_EQ(read.host, expected.host);
    EXPECT_EQ(read.port, expected.port);
    EXPECT_EQ(read.unix_socket, expected.unix_socket);
    ASSERT_EQ(read.tls.has_value(), expected.tls.has_value());
    if (read.tls) {
        EXPECT_EQ(read.tls->ca_file, expected.tls->ca_file);
        EXPECT_EQ(read.tls->certificate_file, expected.tls->certificate_file);
        EXPECT_EQ(read.tls->private_key_file, expected.tls->private_key_file);
    }
    EXPECT_EQ(read.username, expected.username);
    EXPECT_EQ(read.password, expected.password);
    EXPECT_EQ(read.database, expected.database);
    EXPECT_EQ(read.client_name, expected.client_name);
    EXPECT_EQ(read.prefix, expected.prefix);
    EXPECT_EQ(read.connect_timeout, expected.connect_timeout);
    EXPECT_EQ(read.command_timeout, expected.command_timeout);
    EXPECT_EQ(read.cleanup_in_is_locked, expected.cleanup_in_is_locked);
}

TEST(redis_url, every_part_sets_its_option) {
    const std::vector<std::pair<std::string, options>> table{
        {"redis://localhost", {.host = "localhost"}},
        {"redis://localhost/", {.host = "localhost"}},
        {"redis://localhost?", {.host = "localhost"}},
        {"REDIS://localhost", {.host = "localhost"}},
        {"redis://h:1", {.host = "h", .port = 1}},
        {"redis://h:65535/15", {.host = "h", .port = 65'535, .database = 15}},
        {"redis://10.1.2.3:7000", {.host = "10.1.2.3", .port = 7000}},
        {"redis://[::1]", {.host = "::1"}},
        {"redis://[2001:db8::7]:7000/2", {.host = "2001:db8::7", .port = 7000, .database = 2}},
        {"redis://[fe80::1%25eth0]:7000", {.host = "fe80::1%eth0", .port = 7000}},
        {"redis://:pw@h", {.host = "h", .password = "pw"}},
        {"redis://u:pw@h:2/3",
         {.host = "h", .port = 2, .username = "u", .password = "pw", .database = 3}},
        {"redis://us%3aer:p%40ss%2F%3f%25%20%00w@h",
         {.host = "h", .username = "us:er", .password = std::string("p@ss/?% \0w", 10)}},
        {"redis://u@h", {.host = "h", .username = "u"}},
        {"redis://u:p:w@h", {.host = "h", .username = "u", .password = "p:w"}},
        {"redis://u:p@w@h", {.host = "h", .username = "u", .password = "p@w"}},
        {"redis://u:pw@[::1]:5", {.host = "::1", .port = 5, .username = "u", .password = "pw"}},
        {"rediss://h", {.host = "h", .tls = redis::tls_options{}}},
        {"rediss://h:7?ca_file=/a%20b.pem&certificate_file=c.pem&private_key_file=k.pem",
         {.host = "h",
          .port = 7,
          .tls = redis::tls_options{.ca_file = "/a b.pem",
                                    .certificate_file = "c.pem",
                                    .private_key_file = "k.pem"}}},
        {"redis+unix:///run/redis.sock", {.unix_socket = "/run/redis.sock"}},
        {"redis+unix://u:pw@/run/a%20b.sock?database=4",
         {.unix_socket = "/run/a b.sock", .username = "u", .password = "pw", .database = 4}},
        {"redis://h/2147483647?prefix=app%3Alocks&client_name=c&connect_timeout_ms=1&"
         "command_timeout_ms=86400000&cleanup_in_is_locked=true",
         {.host = "h",
          .database = 2'147'483'647,
          .client_name = "c",
          .prefix = "app:locks",
          .connect_timeout = 1ms,
          .command_timeout = 24h,
          .cleanup_in_is_locked = true}},
        {"redis://h?prefix=&client_name=&cleanup_in_is_locked=false",
         {.host = "h", .client_name = "", .prefix = ""}},
        {"redis://u:pw@h?client_name=a%40b",
         {.host = "h", .username = "u", .password = "pw", .client_name = "a@b"}},
    };
    for (const auto& [url, expected] : table) {
        SCOPED_TRACE(url);
        expect_same(parse_url(url), expected);
    }
}

TEST(redis_url, errors_do_not_repeat_the_url) {
    for (const std::string url :
         {"", "hunter2", "redis", "redis:", "redis:hunter2", "redis:/hunter2", "redis://",
          "redis:///hunter2", "redis://:hunter2", "redis://:hunter2@", "redis://:hunter2@/",
          "redis://:hunter2@:6379", "redis://:@h", "redis://@h",
          "redis://:hunter2@h:", "redis://:hunter2@h:0", "redis://:hunter2@h:65536",
          "redis://:hunter2@h:-1", "redis://:hunter2@h:+1", "redis://:hunter2@h:6379x",
          "redis://:hunter2@h: 1", "redis://:hunter2@h:1:2", "redis://:hunter2@h/x",
          "redis://:hunter2@h/-1", "redis://:hunter2@h/1/2", "redis://:hunter2@h/2147483648",
          "redis://:hunter2@h/99999999999999999999", "redis://:hunter2@[::1",
          "redis://:hunter2@[::1]6379", "redis://:hunter2@[]", "redis://:hunter2%@h",
          "redis://:hunter2%zz@h", "redis://:hunter2@h?prefix", "redis://:hunter2@h?=x",
          "redis://:hunter2@h?hello=hunter2", "redis://:hunter2@h?prefix=a&prefix=b",
          "redis://:hunter2@h?connect_timeout_ms=0",
          "redis://:hunter2@h?connect_timeout_ms=86400001",
          "redis://:hunter2@h?command_timeout_ms=-1", "redis://:hunter2@h?command_timeout_ms=1s",
          "redis://:hunter2@h?cleanup_in_is_locked=yes", "redis://:hunter2@h?database=1",
          "redis+unix://:hunter2@/sock?database=x", "redis://:hunter2@h?ca_file=x",
          "redis+unix://:hunter2@h/sock", "redis+unix://", "redis+unix:///",
          "redis+unix://:hunter2@", "http://:hunter2@h",
          // Passwords with characters that should have been encoded.
          "redis://:a/hunter2@h", "redis://:a#hunter2@h/b", "redis://:a?hunter2@h",
          "redis://:a?hunter2=b@h", "redis://:a?b&hunter2@h", "redis://:a?b=c&hunter2=d@h",
          "redis://a:1?hunter2=b@h", "redis://:a@b?hunter2=c@h", "redis://a?hunter2&b=c@h"}) {
        SCOPED_TRACE(url);
        for (const auto& read : {std::function<void()>([&] { (void)parse_url(url); }),
                                 std::function<void()>([&] { (void)connect(url); })}) {
            const auto failure = expect_error(error_code::invalid_argument, read);
            if (!failure) continue;
            EXPECT_EQ(std::string(failure->what()).find("hunter2"), std::string::npos)
                << failure->what();
        }
    }
}

TEST(redis_url, an_option_that_does_not_exist_is_named) {
    const auto failure =
        expect_error(error_code::invalid_argument, [] { (void)parse_url("redis://h?timeout=3"); });
    EXPECT_NE(std::string(failure->what()).find("'timeout'"), std::string::npos);
    const auto needs_tls =
        expect_error(error_code::invalid_argument, [] { (void)parse_url("redis://h?ca_file=x"); });
    EXPECT_NE(std::string(needs_tls->what()).find("rediss://"), std::string::npos);
}

TEST(redis_options, unusable_ones_are_refused_before_anything_is_done) {
    const std::vector<options> refused{
        {.host = ""},
        {.port = 0},
        {.unix_socket = "/run/redis.sock", .tls = redis::tls_options{}},
        {.unix_socket = "/" + std::string(107, 'x')},
        {.host = "h\nx"},
        {.unix_socket = std::string("/a\0b", 4)},
        {.client_name = "a b"},
        {.client_name = "a\n"},
        {.client_name = "\xc3\xa9"},
        {.prefix = "fence"},
        {.connect_timeout = 0ms},
        {.connect_timeout = -1ms},
        {.command_timeout = 0ms},
        {.tls = redis::tls_options{.ca_file = "/does/not/exist.pem"}},
    };
    for (std::size_t i = 0; i < refused.size(); ++i) {
        SCOPED_TRACE(i);
        expect_error(error_code::invalid_argument, [&] { redis::backend{refused[i]}; });
    }
}

TEST(redis_options, unusual_but_valid_ones_are_accepted) {
    EXPECT_NO_THROW(redis::backend({.host = "", .port = 0, .unix_socket = "/run/redis.sock"}));
    EXPECT_NO_THROW(redis::backend({.unix_socket = "/" + std::string(106, 'x')}));
    EXPECT_NO_THROW(redis::backend({.username = "u", .password = "p", .client_name = ""}));
    EXPECT_NO_THROW(redis::backend({.username = "needs none"}));
    EXPECT_NO_THROW(redis::backend({.host = "no such host"}));
}

class connecting_to_redis : public on_redis {};

TEST_F(connecting_to_redis, by_host_and_port) {
    const auto locks = connect(server_.url() + "?client_name=tester");
    EXPECT_EQ(locks.capabilities().backend, "redis");
    EXPECT_EQ(locks.capabilities().time_authority, time_authority::server);
    EXPECT_TRUE(locks.acquire("k"));
    EXPECT_NE(command({"CLIENT", "LIST"}).text.find("name=tester"), std::string::npos);
}

TEST_F(connecting_to_redis, by_name) {
    const auto locks = connect("redis://localhost:" + std::to_string(server_.port()));
    EXPECT_TRUE(locks.acquire("k"));
}

TEST_F(connecting_to_redis, by_socket_with_a_prefix_and_a_database) {
    const auto locks =
        connect("redis+unix://" + server_.socket_path().string() + "?prefix=app&database=2");
    EXPECT_TRUE(locks.acquire("k"));
    redis_connection asking(server_.socket_path());
    (void)asking.command({"SELECT", "2"});
    EXPECT_EQ(asking.command({"GET", "app:fence:app:k"}).text, "1");
}

TEST_F(connecting_to_redis, a_missing_socket_is_named) {
    const auto locks = connect("redis+unix:///no/such/socket");
    const auto failure =
        expect_error(error_code::service_unavailable, [&] { (void)locks.is_locked("k"); });
    EXPECT_NE(std::string(failure->what()).find("/no/such/socket"), std::string::npos);
}

TEST(connecting_with_tls, needs_no_server_yet) {
    EXPECT_EQ(connect("rediss://h").capabilities().backend, "redis");
}

}  // namespace
}  // namespace syncguard::test
