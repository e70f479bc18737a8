/// Many threads on one Redis backend: two hundred callers, and many callers with short timeouts.
#include "redis/redis_fault.hpp"
#include "support/eventually.hpp"
#include "support/test_seed.hpp"

#include <syncguard/async.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>

#include <atomic>
#include <future>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

class redis_threads : public testing::Test {
  protected:
    redis_server server_;
    any_backend locks_ = redis::backend({.host = "127.0.0.1", .port = server_.port()}, quiet());
};

TEST_F(redis_threads, two_hundred_on_their_own_keys_get_their_own_answers) {
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 200; ++i) {
            threads.emplace_back([this, i] {
                const std::string key = "own:" + std::to_string(i);
                for (std::uint64_t round = 1; round <= 10; ++round) {
                    auto lease =
                        i % 2 == 0 ? locks_.acquire(key)
                                   : async_acquire(locks_, key, {}, boost::asio::use_future).get();
                    ASSERT_TRUE(lease);
                    EXPECT_EQ(lease->fence(), fence::from_counter(round));
                    const auto info = locks_.lookup(ownership_lookup{lease->lock_id()});
                    ASSERT_TRUE(info);
                    EXPECT_EQ(info->fence, lease->fence());
                    EXPECT_TRUE(lease->release());
                }
            });
        }
    }
    EXPECT_EQ(locks_in(server_), 0U);
    EXPECT_EQ(clients_of(server_), 1U);
}

TEST_F(redis_threads, two_hundred_on_few_keys_exclude_each_other_and_do_not_delay_renewals) {
    auto renewed = locks_.acquire("renewed", {.ttl = 30s});
    ASSERT_TRUE(renewed);
    std::array<std::atomic<int>, 4> holders{};
    std::array<std::atomic<std::uint64_t>, 4> grants{};
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 200; ++i) {
        threads.emplace_back([&, i](const std::stop_token& stop) {
            const std::size_t index = i % holders.size();
            while (!stop.stop_requested()) {
                auto lease = locks_.acquire("shared:" + std::to_string(index));
                if (!lease) continue;
                EXPECT_EQ(++holders[index], 1);
                ++grants[index];
                --holders[index];
                EXPECT_TRUE(lease->release());
            }
        });
    }
    milliseconds longest{0};
    for (int i = 0; i < 100; ++i)
        longest = std::max(longest, time_of([&] { EXPECT_TRUE(renewed->extend({.ttl = 30s})); }));
    threads.clear();
    EXPECT_LT(longest, 1s + margin);
    for (std::size_t index = 0; index < holders.size(); ++index) {
        auto last = locks_.acquire("shared:" + std::to_string(index));
        ASSERT_TRUE(last);
        EXPECT_EQ(last->fence(), fence::from_counter(grants[index] + 1));
    }
}

TEST_F(redis_threads, many_callers_with_short_timeouts_leave_nothing_locked) {
    const auto seed = test_seed();
    {
        std::vector<std::jthread> threads;
        for (unsigned i = 0; i < 24; ++i) {
            threads.emplace_back([this, seed, i] {
                std::mt19937_64 random(seed + i);
                const auto up_to = [&](int most) {
                    return std::uniform_int_distribution<int>(0, most)(random);
                };
                for (int round = 0; round < 150; ++round) {
                    const std::string key = "key:" + std::to_string(up_to(40));
                    std::stop_source stop;
                    std::jthread stopper;
                    const acquire_options options{.ttl = 60s,
                                                  .timeout = milliseconds(1 + up_to(4))};
                    if (up_to(2) == 0) {
                        stopper = std::jthread([&stop, pause = up_to(1500)] {
                            std::this_thread::sleep_for(std::chrono::microseconds(pause));
                            stop.request_stop();
                        });
                    }
                    try {
                        if (up_to(1) == 0) {
                            (void)locks_.acquire(key, options, stop.get_token());
                        } else {
                            (void)async_acquire(locks_, key, options, boost::asio::use_future)
                                .get();
                        }
                    } catch (const lock_error& failure) {
                        EXPECT_TRUE(failure.code() == error_code::aborted ||
                                    failure.code() == error_code::network_timeout)
                            << failure.what();
                    }
                }
            });
        }
    }
    EXPECT_TRUE(eventually([&] { return locks_in(server_) == 0; }, cleanup_time))
        << locks_in(server_);
    EXPECT_TRUE(eventually([&] { return clients_of(server_) <= 2; }, cleanup_time))
        << clients_of(server_);
    EXPECT_TRUE(locks_.acquire("key:0"));
}

TEST_F(redis_threads, many_callers_of_a_silent_server_open_few_connections) {
    const auto seed = test_seed();
    (void)locks_.is_locked("warm-up");
    server_.pause();
    {
        std::vector<std::jthread> threads;
        for (unsigned i = 0; i < 16; ++i) {
            threads.emplace_back([this, seed, i] {
                std::mt19937_64 random(seed + i);
                for (int round = 0; round < 20; ++round) {
                    const milliseconds timeout(1 + static_cast<int>(random() % 20));
                    EXPECT_THROW((void)locks_.acquire("key:" + std::to_string(random() % 40),
                                                      {.ttl = 60s, .timeout = timeout}),
                                 lock_error);
                }
            });
        }
    }
    server_.resume();
    EXPECT_TRUE(eventually([&] { return locks_in(server_) == 0; }, cleanup_time))
        << locks_in(server_);
    EXPECT_TRUE(eventually([&] { return clients_of(server_) <= 2; }, cleanup_time))
        << clients_of(server_);
}

TEST_F(redis_threads, a_full_queue_refuses_callers_and_still_releases_in_the_background) {
    fault_proxy proxy(server_.port());
    const any_backend locks =
        redis::backend({.host = "127.0.0.1", .port = proxy.port()}, quiet(30s));
    (void)locks.is_locked("warm-up");
    proxy.stall(direction::to_client);
    boost::asio::io_context io;
    boost::asio::cancellation_signal cancel;
    auto cancelled =
        async_acquire(locks, "k", {.ttl = 60s},
                      boost::asio::bind_cancellation_slot(cancel.slot(), boost::asio::use_future));
    EXPECT_TRUE(eventually([&] { return holds_lock(server_, "k"); }));
    std::atomic<long> answered{0};
    std::atomic<bool> refused{false};
    long started = 0;
    for (; !refused && started < 200'000; ++started) {
        async_is_locked(locks, "other", {}, [&](const std::exception_ptr& failure, bool) {
            if (failure) refused = true;
            ++answered;
        });
    }
    EXPECT_TRUE(refused);
    cancel.emit(boost::asio::cancellation_type::terminal);
    EXPECT_THROW((void)cancelled.get(), lock_error);
    proxy.resume(direction::to_client);
    EXPECT_TRUE(eventually([&] { return answered == started; }, 60s));
    EXPECT_TRUE(eventually([&] { return !holds_lock(server_, "k"); }, cleanup_time));
}

TEST_F(redis_threads, leases_are_extended_and_released_even_if_the_queue_is_full) {
    fault_proxy proxy(server_.port());
    const any_backend locks =
        redis::backend({.host = "127.0.0.1", .port = proxy.port()}, quiet(60s));
    auto extended = locks.acquire("extended", {.ttl = 60s});
    auto released = locks.acquire("released", {.ttl = 60s});
    auto dropped = locks.acquire("dropped", {.ttl = 60s});
    ASSERT_TRUE(extended && released && dropped);
    proxy.stall(direction::to_client);
    std::atomic<long> answered{0};
    std::atomic<bool> refused{false};
    long started = 0;
    for (; !refused && started < 200'000; ++started) {
        async_is_locked(locks, "other", {}, [&](const std::exception_ptr& failure, bool) {
            if (failure) refused = true;
            ++answered;
        });
    }
    EXPECT_TRUE(refused);
    auto extension = async_extend(*extended, {.ttl = 90s}, boost::asio::use_future);
    auto release = async_release(*released, {}, boost::asio::use_future);
    auto disposal = std::async(std::launch::async, [lease = std::move(*dropped)]() mutable {
        const auto gone = std::move(lease);
    });
    proxy.resume(direction::to_client);
    EXPECT_TRUE(extension.get());
    EXPECT_TRUE(release.get());
    EXPECT_TRUE(eventually([&] { return !holds_lock(server_, "dropped"); }, cleanup_time));
    EXPECT_TRUE(eventually([&] { return answered == started; }, 60s));
}

}  // namespace
}  // namespace syncguard::test
