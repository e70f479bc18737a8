/// The engine's HTTP: addresses, dates, and servers that behave unusually.
#include "firestore/local_google.hpp"
#include "http/message.hpp"
#include "support/expect_error.hpp"

#include <syncguard/firestore.hpp>

#include <gtest/gtest.h>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;

TEST(http_dates, are_read_in_the_form_that_servers_send) {
    const auto date = net::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT");
    ASSERT_TRUE(date);
    EXPECT_EQ(date->time_since_epoch().count(), 784'111'777);
    for (const char* const other :
         {"", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 CET",
          "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Xxx 1994 08:49:37 GMT",
          "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov 1994 08:4x:37 GMT"})
        EXPECT_FALSE(net::parse_http_date(other)) << other;
}

TEST(http_urls, name_an_origin_and_a_target) {
    const auto plain = net::parse_http_url("https://oauth2.googleapis.com/token");
    ASSERT_TRUE(plain);
    EXPECT_EQ(plain->origin.authority(), "oauth2.googleapis.com:443");
    EXPECT_TRUE(plain->origin.tls);
    EXPECT_EQ(plain->target, "/token");
    EXPECT_EQ(net::parse_http_url("http://[::1]:8080")->origin.authority(), "[::1]:8080");
    EXPECT_TRUE(net::parse_http_url("http://[::1]:8080")->origin.is_loopback());
    EXPECT_FALSE(net::parse_http_url("http://10.0.0.1")->origin.is_loopback());
    for (const char* const wrong :
         {"", "ftp://x", "https://", "https://:1", "https://x:", "https://x:0", "https://x:65536",
          "https://x:1a", "https://[::1", "https://[::1]x", "https://a b", "https://a\r\nb: c",
          "https://a/b c", "https://a/b\r\nc: d", "https://a/\t", "https://a/\x7f"})
        EXPECT_FALSE(net::parse_http_url(wrong)) << wrong;
    EXPECT_FALSE(net::parse_host_and_port("localhost"));
    EXPECT_EQ(net::parse_host_and_port("localhost:8080")->port, 8080);
}

class odd_server : public testing::Test {
  protected:
    [[nodiscard]] firestore::backend open(const http_server& server) const {
        return firestore::backend(
            {.project = "p", .emulator_host = "127.0.0.1:" + std::to_string(server.port())},
            {.operation_timeout = 20s});
    }
};

TEST_F(odd_server, that_closes_after_each_answer_gets_new_connections) {
    const http_server server([](const http_received& request) {
        return http_reply{.body = nothing_found(request), .close_behind = true};
    });
    const auto locks = open(server);
    for (int i = 0; i < 5; ++i)
        EXPECT_FALSE(locks.is_locked("k"));
    EXPECT_EQ(server.connections(), 5U);
}

TEST_F(odd_server, that_sends_connection_close_gets_new_connections) {
    const http_server server([](const http_received& request) {
        return http_reply{.body = nothing_found(request), .headers = {{"Connection", "close"}}};
    });
    const auto locks = open(server);
    for (int i = 0; i < 3; ++i)
        EXPECT_FALSE(locks.is_locked("k"));
    EXPECT_EQ(server.connections(), 3U);
}

TEST_F(odd_server, with_malformed_answers_is_an_internal_error) {
    for (const char* const body : {"", "hello", "{}", "[]", R"([{"found":{}}])"}) {
        const http_server server([&](const http_received&) { return http_reply{.body = body}; });
        expect_error(error_code::internal, [&] { (void)open(server).is_locked("k"); });
    }
}

TEST_F(odd_server, with_a_malformed_answer_to_a_commit_leaves_the_outcome_unknown) {
    std::atomic<int> reads{0};
    const http_server server([&](const http_received& request) {
        if (request.target.ends_with(":commit")) return http_reply{.body = "?"};
        ++reads;
        return http_reply{.body = nothing_found(request)};
    });
    const auto locks = open(server);
    expect_error(error_code::internal, [&] { (void)locks.acquire("k"); });
    // One read before the commit, and one to find out its outcome.
    EXPECT_GE(reads, 2);
}

TEST_F(odd_server, whose_answer_never_ends_is_disconnected) {
    const http_server server([](const http_received&) {
        return http_reply{.body = std::string(std::size_t{20} * 1024 * 1024, ' ')};
    });
    expect_error(error_code::internal, [&] { (void)open(server).is_locked("k"); });
}

}  // namespace
}  // namespace syncguard::test
