/// Destruction of a Redis backend: during calls, after timeouts, from within handlers.
#include "redis/redis_fault.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"

#include <syncguard/async.hpp>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

class redis_end : public testing::Test {
  protected:
    [[nodiscard]] std::optional<any_backend> open() const {
        return redis::backend({.host = "127.0.0.1", .port = proxy_.port()}, quiet());
    }

    redis_server server_;
    fault_proxy proxy_{server_.port()};
};

TEST_F(redis_end, calls_that_are_under_way_are_completed) {
    for (int round = 0; round < 20; ++round) {
        auto locks = open();
        std::vector<std::future<any_result>> calls;
        for (int i = 0; i < 20; ++i) {
            calls.push_back(async_acquire(*locks, "key:" + std::to_string(i), {.ttl = 60s},
                                          boost::asio::use_future));
        }
        locks.reset();
        for (auto& each : calls) {
            auto lease = each.get();
            ASSERT_TRUE(lease);
            EXPECT_TRUE(lease->release());
        }
    }
    EXPECT_EQ(locks_in(server_), 0U);
}

TEST_F(redis_end, leases_that_no_handler_took_are_released_after_it) {
    {
        boost::asio::io_context io;
        auto locks = open();
        for (int i = 0; i < 20; ++i) {
            async_acquire(*locks, "key:" + std::to_string(i), {.ttl = 60s},
                          boost::asio::bind_executor(
                              io, [](const std::exception_ptr&, const any_result&) {}));
        }
        locks.reset();
        io.poll();
        // The context is destroyed, and with it the handlers that have not run.
    }
    EXPECT_TRUE(eventually([&] { return locks_in(server_) == 0; }, cleanup_time));
}

TEST_F(redis_end, after_a_timeout_takes_about_a_second_at_most) {
    auto locks = open();
    (void)locks->is_locked("warm-up");
    server_.pause();
    expect_error(error_code::network_timeout,
                 [&] { (void)locks->acquire("k", {.ttl = 60s, .timeout = 50ms}); });
    EXPECT_LT(time_of([&] { locks.reset(); }), 1s + margin);
    server_.resume();
}

TEST_F(redis_end, after_a_timeout_waits_for_the_release_of_the_granted_lock) {
    for (const bool asynchronously : {false, true}) {
        auto locks = open();
        (void)locks->is_locked("warm-up");
        proxy_.delay(direction::to_client, 300ms);
        if (asynchronously) {
            auto call =
                async_acquire(*locks, "k", {.ttl = 60s, .timeout = 50ms}, boost::asio::use_future);
            // Now the call is the last owner, and the backend ends with it.
            locks.reset();
            expect_error(error_code::network_timeout, [&] { (void)call.get(); });
        } else {
            expect_error(error_code::network_timeout,
                         [&] { (void)locks->acquire("k", {.ttl = 60s, .timeout = 50ms}); });
        }
        proxy_.delay(direction::to_client, 0ms);
        EXPECT_LT(time_of([&] { locks.reset(); }), 1s + margin);
        EXPECT_TRUE(eventually([&] { return !holds_lock(server_, "k"); }, 2s)) << asynchronously;
    }
}

TEST_F(redis_end, may_come_from_within_a_handler) {
    for (int round = 0; round < 20; ++round) {
        auto locks = std::make_shared<std::optional<any_backend>>(open());
        std::promise<void> done;
        async_acquire(**locks, "k", {.ttl = 60s},
                      [locks, &done](const std::exception_ptr& failure, any_result result) {
                          EXPECT_FALSE(failure);
                          locks->reset();
                          EXPECT_TRUE(result && result->release());
                          done.set_value();
                      });
        done.get_future().get();
    }
    EXPECT_TRUE(eventually([&] { return clients_of(server_) == 0; }, cleanup_time));
}

TEST_F(redis_end, while_other_threads_create_and_destroy_backends) {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
        threads.emplace_back([this, i] {
            for (int round = 0; round < 20; ++round) {
                auto locks = open();
                const std::string key = "key:" + std::to_string(i);
                if (round % 2 == 0) {
                    EXPECT_TRUE(locks->acquire(key, {.ttl = 60s}));
                } else {
                    auto call = async_acquire(*locks, key, {.ttl = 60s}, boost::asio::use_future);
                    locks.reset();
                    auto lease = call.get();
                    EXPECT_TRUE(lease && lease->release());
                }
            }
        });
    }
    threads.clear();
    EXPECT_TRUE(eventually([&] { return clients_of(server_) == 0; }, cleanup_time));
    EXPECT_EQ(locks_in(server_), 0U);
}

TEST_F(redis_end, without_a_reachable_server_is_prompt) {
    auto locks = open();
    auto lease = locks->acquire("k", {.ttl = 60s});
    ASSERT_TRUE(lease);
    server_.kill();
    EXPECT_LT(time_of([&] {
                  lease->detach();
                  locks.reset();
                  lease = any_result();
              }),
              1s + margin);
}

}  // namespace
}  // namespace syncguard::test
