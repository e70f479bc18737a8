/// Allocation failures of callers that wait for a connection of an HTTP pool.
#include "http/pool.hpp"
#include "support/eventually.hpp"
#include "support/failing_allocation.hpp"
#include "support/http_server.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <set>
#include <string>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;

/// The result of a call.
enum class result { none, answered, failed };

boost::asio::awaitable<void> ask(net::http_pool& pool, boost::asio::io_context& context,
                                 result& into) {
    const auto ctx = std::make_shared<net::call_context>(context);
    net::http_request request;
    request.target = "/";
    try {
        (void)co_await pool.request(request, *ctx);
        into = result::answered;
    } catch (const std::exception&) {
        into = result::failed;
    }
}

/// Makes the `nth` allocation of a call that waits for the only connection fail. Returns whether
/// there was such an allocation. `timers` other timers run: with some of these numbers Asio's table
/// of timers is full, so that the call's own timer allocates.
bool fails_in_line(long nth, std::size_t timers) {
    std::atomic<int> requests{0};
    std::atomic<bool> holds{true};
    const http_server server([&](const http_received&) {
        ++requests;
        EXPECT_TRUE(eventually([&] { return !holds; }));
        return http_reply{.body = "A"};
    });
    boost::asio::io_context context;
    net::socket_registry sockets;
    net::http_pool pool(
        context, {.origin = {.host = "127.0.0.1", .port = server.port()}, .server_name = "here"},
        nullptr, sockets);
    const auto begin = [&](result& into) {
        boost::asio::co_spawn(context, ask(pool, context, into), boost::asio::detached);
    };

    result first{};
    result second{};
    result third{};
    begin(first);
    EXPECT_TRUE(eventually([&] {
        context.poll();
        return requests == 1;
    }));
    std::list<boost::asio::steady_timer> others;
    for (std::size_t i = 0; i < timers; ++i)
        others.emplace_back(context, 1h).async_wait([](const auto&) {});
    const bool struck = with_failing_allocation(nth, [&] {
        begin(second);
        context.poll();
    });
    others.clear();
    holds = false;
    context.run_for(5s);
    context.restart();
    begin(third);
    context.run_for(5s);
    EXPECT_EQ(first, result::answered) << "allocation " << nth;
    EXPECT_EQ(third, result::answered) << "allocation " << nth;
    return struck;
}

TEST(http_pool_out_of_memory, a_request_that_fails_in_the_queue_leaves_it) {
    std::set<long> allocations_of_a_call;
    for (std::size_t timers = 0; timers <= 4; ++timers) {
        long nth = 0;
        while (fails_in_line(nth, timers))
            ASSERT_LT(++nth, 1'000);
        allocations_of_a_call.insert(nth);
    }
    EXPECT_GT(allocations_of_a_call.size(), 1U) << "no timer needed memory";
}

}  // namespace
}  // namespace syncguard::test
