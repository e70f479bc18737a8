/// Answers are matched to their requests, whatever else the server sends.
#include "http/pool.hpp"

#include "support/certificates.hpp"
#include "support/eventually.hpp"
#include "support/fault_proxy.hpp"
#include "support/http_server.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;

using answers = std::vector<std::string>;

std::string answer_with(const std::string& body) {
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

/// A server that sends given replies one after another, without and with TLS.
class http_answers : public testing::TestWithParam<bool> {
  protected:
    /// Sends one request for each reply, one after another. Returns the bodies of the answers,
    /// "broken" if there was none.
    answers ask(const std::vector<http_reply>& replies) {
        std::atomic<std::size_t> requests{0};
        const http_server server(
            [&](const http_received&) { return replies.at(requests++ % replies.size()); },
            GetParam() ? std::optional(certificates_.server()) : std::nullopt);
        boost::asio::io_context context;
        net::socket_registry sockets;
        net::lazy_tls_context tls(
            {.authorities = certificates_.ca(), .certificate = {}, .private_key = {}});
        net::http_pool pool(
            context,
            {.origin = {.host = "localhost", .port = server.port(), .tls = GetParam()},
             .server_name = "here",
             .most_connections = 1},
            GetParam() ? &tls : nullptr, sockets);
        answers received;
        boost::asio::co_spawn(context, ask_one_by_one(pool, context, replies.size(), received),
                              boost::asio::detached);
        context.run();
        connections_ = server.connections();
        return received;
    }

    std::size_t connections_ = 0;

  private:
    static boost::asio::awaitable<void> ask_one_by_one(net::http_pool& pool,
                                                       boost::asio::io_context& context,
                                                       std::size_t count, answers& received) {
        for (std::size_t i = 0; i < count; ++i) {
            const auto ctx = std::make_shared<net::call_context>(context);
            net::http_request request;
            request.target = "/";
            try {
                auto answer = co_await pool.request(request, *ctx);
                received.push_back(answer.body);
            } catch (const net::response_lost&) {
                received.emplace_back("broken");
            }
        }
    }

    const certificates certificates_;
};

INSTANTIATE_TEST_SUITE_P(all, http_answers, testing::Bool(), [](const auto& test) {
    return std::string(test.param ? "with_tls" : "without_tls");
});

TEST_P(http_answers, may_follow_interim_responses) {
    for (const char* const interim :
         {"HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 102 Processing\r\n\r\n",
          "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
          "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n"}) {
        EXPECT_EQ(ask({{.body = "A", .before = interim}, {.body = "B"}}), (answers{"A", "B"}));
        EXPECT_EQ(connections_, 1U) << interim;
    }
}

TEST_P(http_answers, that_are_not_final_break_the_connection) {
    for (const char* const status : {"101 Switching Protocols", "000 Nothing", "099 Nothing"}) {
        const auto raw =
            "HTTP/1.1 " + std::string(status) + "\r\nContent-Length: 0\r\n\r\n" + answer_with("X");
        EXPECT_EQ(ask({{.raw = raw}, {.body = "B"}}), (answers{"broken", "B"})) << status;
        EXPECT_EQ(connections_, 2U) << status;
    }
}

TEST_P(http_answers, that_are_unsolicited_are_never_read) {
    EXPECT_EQ(ask({{.body = "A", .behind = answer_with("X")}, {.body = "B"}}), (answers{"A", "B"}));
    EXPECT_EQ(connections_, 2U);
}

TEST_P(http_answers, without_a_body_by_their_status_end_the_connection) {
    for (const char* const status : {"204 No Content", "304 Not Modified"}) {
        const auto raw = "HTTP/1.1 " + std::string(status) + "\r\nContent-Length: 5\r\n\r\n";
        EXPECT_EQ(ask({{.raw = raw}, {.body = "B"}}), (answers{"", "B"})) << status;
        EXPECT_EQ(connections_, 2U) << status;
    }
}

TEST_P(http_answers, whose_length_is_ambiguous_are_refused) {
    for (const char* const headers :
         {"Content-Length: 1\r\nContent-Length: 2\r\n", "Content-Length: 1, 2\r\n",
          "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
          "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n", "Content-Length: -1\r\n",
          "Content-Length : 1\r\n"}) {
        const auto raw = "HTTP/1.1 200 OK\r\n" + std::string(headers) + "\r\nA";
        EXPECT_EQ(ask({{.raw = raw}, {.body = "B"}}), (answers{"broken", "B"})) << headers;
    }
}

TEST_P(http_answers, in_chunks_keep_the_connection) {
    const std::string raw =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nA\r\n0\r\n\r\n";
    EXPECT_EQ(ask({{.raw = raw}, {.body = "B"}}), (answers{"A", "B"}));
    EXPECT_EQ(connections_, 1U);
}

/// A server with a long round trip, without and with TLS.
class http_at_a_distance : public testing::TestWithParam<bool> {
  protected:
    static constexpr auto round_trip = 100ms;

    http_at_a_distance() { proxy_.delay(direction::to_client, round_trip); }

    /// Sends `count` requests one after another, each with this timeout. Returns how many were
    /// answered.
    std::size_t ask(std::size_t count, std::chrono::milliseconds timeout) {
        std::size_t answered = 0;
        boost::asio::co_spawn(context_, ask_one_by_one(count, timeout, answered),
                              boost::asio::detached);
        context_.restart();
        context_.run();
        return answered;
    }

    const certificates certificates_;
    const http_server server_{[](const http_received&) { return http_reply{.body = "A"}; },
                              GetParam() ? std::optional(certificates_.server()) : std::nullopt};
    fault_proxy proxy_{server_.port()};

  private:
    boost::asio::awaitable<void> ask_one_by_one(std::size_t count,
                                                std::chrono::milliseconds timeout,
                                                std::size_t& answered) {
        net::http_request request;
        request.target = "/";
        for (std::size_t i = 0; i < count; ++i) {
            const auto ctx = std::make_shared<net::call_context>(context_);
            ctx->set_deadline(std::chrono::steady_clock::now() + timeout,
                              {error_code::network_timeout, "too late"});
            try {
                const auto answer = co_await pool_.request(request, *ctx);
                if (answer.body == "A") ++answered;
            } catch (const lock_error& failure) {
                EXPECT_EQ(failure.code(), error_code::network_timeout) << failure.what();
            }
        }
    }

    boost::asio::io_context context_;
    net::socket_registry sockets_;
    net::lazy_tls_context tls_{
        {.authorities = certificates_.ca(), .certificate = {}, .private_key = {}}};
    net::http_pool pool_{context_,
                         {.origin = {.host = "localhost", .port = proxy_.port(), .tls = GetParam()},
                          .server_name = "here",
                          .most_connections = 4},
                         GetParam() ? &tls_ : nullptr,
                         sockets_};
};

INSTANTIATE_TEST_SUITE_P(all, http_at_a_distance, testing::Bool(), [](const auto& test) {
    return std::string(test.param ? "with_tls" : "without_tls");
});

TEST_P(http_at_a_distance, timeouts_below_the_round_trip_do_not_each_open_a_connection) {
    EXPECT_EQ(ask(100, 20ms), 0U);
    EXPECT_LE(proxy_.connections(), 12U);
    // A call with a long timeout does not wait for long.
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(ask(1, 20s), 1U);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
    const auto connections = proxy_.connections();
    EXPECT_EQ(ask(2, 20s), 2U);
    EXPECT_EQ(proxy_.connections(), connections);
}

boost::asio::awaitable<void> send_to(net::http_pool& pool, std::string target,
                                     std::shared_ptr<net::call_context> ctx) {
    net::http_request request;
    request.target = std::move(target);
    (void)co_await pool.request(request, *ctx);
}

TEST(http_connections, go_first_to_calls_that_have_priority) {
    std::mutex mutex;
    std::vector<std::string> served;
    std::atomic<bool> all_wait{false};
    const http_server server([&](const http_received& request) {
        const std::lock_guard guard(mutex);
        served.push_back(request.target);
        EXPECT_TRUE(eventually([&] { return all_wait.load(); }));
        return http_reply{.body = "A"};
    });
    boost::asio::io_context context;
    net::socket_registry sockets;
    net::http_pool pool(
        context, {.origin = {.host = "127.0.0.1", .port = server.port()}, .server_name = "here"},
        nullptr, sockets);
    const auto begin = [&](std::string target, bool has_priority) {
        auto ctx = std::make_shared<net::call_context>(context, has_priority);
        boost::asio::co_spawn(context, send_to(pool, std::move(target), std::move(ctx)),
                              boost::asio::detached);
        context.poll();
    };
    begin("/1", false);
    begin("/2", false);
    begin("/3", false);
    begin("/first", true);
    begin("/second", true);
    all_wait = true;
    context.run();
    EXPECT_EQ(served, (std::vector<std::string>{"/1", "/first", "/second", "/2", "/3"}));
}

class http_connections_of : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(pool, http_connections_of, testing::Values(1, 4));

TEST_P(http_connections_of, are_opened_at_once_for_calls_that_have_priority) {
    std::mutex mutex;
    std::vector<std::string> received;
    std::atomic<bool> may_answer{false};
    const auto received_count = [&] {
        const std::lock_guard guard(mutex);
        return received.size();
    };
    const http_server server([&](const http_received& request) {
        {
            const std::lock_guard guard(mutex);
            received.push_back(request.target);
        }
        if (request.target == "/impatient") (void)eventually([&] { return may_answer.load(); });
        return http_reply{.body = "A"};
    });
    boost::asio::io_context context;
    net::socket_registry sockets;
    net::http_pool pool(context,
                        {.origin = {.host = "127.0.0.1", .port = server.port()},
                         .server_name = "here",
                         .most_connections = GetParam()},
                        nullptr, sockets);
    const auto begin = [&](std::string target, bool has_priority) {
        auto ctx = std::make_shared<net::call_context>(context, has_priority);
        boost::asio::co_spawn(context, send_to(pool, std::move(target), ctx),
                              [](const std::exception_ptr&) {});
        context.restart();
        context.poll();
        return ctx;
    };
    // Each of these calls increases the delay before the next connection.
    for (std::size_t i = 1; i <= 4; ++i) {
        const auto ctx = begin("/impatient", false);
        ASSERT_TRUE(eventually([&] {
            context.poll();
            return received_count() == i;
        }));
        ctx->cancel({error_code::network_timeout, "too late"});
        context.poll();
    }
    begin("/patient", false);
    begin("/urgent", true);
    may_answer = true;
    context.restart();
    context.run();
    EXPECT_EQ(received, (std::vector<std::string>{"/impatient", "/impatient", "/impatient",
                                                  "/impatient", "/urgent", "/patient"}));
}

}  // namespace
}  // namespace syncguard::test
