/// Locks that are held on a Redis server for long: renewal, and every way to lose them.
#include "redis/redis_fault.hpp"
#include "support/eventually.hpp"
#include "support/loss_recorder.hpp"

#include <syncguard/async.hpp>
#include <syncguard/lock.hpp>

#include <boost/asio/use_future.hpp>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

/// How late a loss may be reported while other tests use the processor.
constexpr milliseconds tolerance{3'000};

const redis_server_options durable{.arguments = {"--appendonly", "yes", "--appendfsync", "always"}};

void let_pass(milliseconds time) {
    const auto begin = lease_clock::now();
    EXPECT_TRUE(eventually([&] { return lease_clock::now() >= begin + time; }, time + 20s));
}

class redis_keep_alive : public testing::Test {
  protected:
    explicit redis_keep_alive(redis_server_options options = {}) : server_(std::move(options)) {}

    [[nodiscard]] any_backend open() const {
        return redis::backend({.host = "127.0.0.1", .port = proxy_.port()}, quiet());
    }

    redis_server server_;
    fault_proxy proxy_{server_.port()};
    any_backend locks_ = open();
    loss_recorder losses_;
};

class durable_redis_keep_alive : public redis_keep_alive {
  protected:
    durable_redis_keep_alive() : redis_keep_alive(durable) {}
};

TEST_F(redis_keep_alive, holds_a_lock_far_beyond_its_ttl) {
    auto lease = locks_.acquire("k", {.ttl = 2s});
    ASSERT_TRUE(lease);
    lease->on_lost(losses_.handler());
    lease->keep_alive();
    let_pass(5s);
    EXPECT_TRUE(lease->valid());
    EXPECT_TRUE(holds_lock(server_, "k"));
    EXPECT_FALSE(open().acquire("k"));
    EXPECT_FALSE(losses_.any());
    EXPECT_TRUE(lease->release());
    EXPECT_FALSE(holds_lock(server_, "k"));
}

TEST_F(redis_keep_alive, holds_one_that_came_from_an_asynchronous_call) {
    auto lease = async_acquire(locks_, "k", {.ttl = 2s}, boost::asio::use_future).get();
    ASSERT_TRUE(lease);
    lease->on_lost(losses_.handler());
    lease->keep_alive();
    let_pass(4s);
    EXPECT_TRUE(lease->valid());
    EXPECT_FALSE(losses_.any());
    EXPECT_TRUE(async_release(*lease, {}, boost::asio::use_future).get());
}

TEST_F(redis_keep_alive, lets_a_function_under_lock_outlast_the_ttl) {
    const int result = lock(locks_, "k",
                            [&](held& held) {
                                let_pass(4s);
                                EXPECT_TRUE(held.valid());
                                EXPECT_FALSE(held.stop_token().stop_requested());
                                return 42;
                            },
                            {.ttl = 2s, .auto_extend = true});
    EXPECT_EQ(result, 42);
    EXPECT_FALSE(holds_lock(server_, "k"));
}

TEST_F(redis_keep_alive, a_silent_server_means_loss_when_the_local_deadline_passes) {
    auto lease = locks_.acquire("k", {.ttl = 2s});
    ASSERT_TRUE(lease);
    lease->on_lost(losses_.handler());
    const auto stop = lease->stop_token();
    lease->keep_alive();
    server_.pause();
    const auto silent_since = lease_clock::now();
    EXPECT_TRUE(eventually([&] { return losses_.any() && stop.stop_requested(); }));
    EXPECT_FALSE(lease->valid());
    EXPECT_EQ(losses_.first().event.reason, loss_reason::expired);
    EXPECT_TRUE(losses_.first().event.cause);
    EXPECT_LT(losses_.first().at, silent_since + 2s + tolerance);
    server_.resume();
    // The lease no longer relies on the lock, but can release it if it is still stored.
    EXPECT_NO_THROW((void)lease->release());
    EXPECT_FALSE(lease->valid());
    EXPECT_EQ(losses_.losses().size(), 1U);
}

TEST_F(redis_keep_alive, answers_that_never_come_mean_loss_although_the_server_has_extended) {
    auto lease = locks_.acquire("k", {.ttl = 2s});
    ASSERT_TRUE(lease);
    lease->on_lost(losses_.handler());
    lease->keep_alive();
    proxy_.stall(direction::to_client);
    EXPECT_TRUE(eventually([&] { return losses_.any(); }));
    EXPECT_EQ(losses_.first().event.reason, loss_reason::expired);
    proxy_.resume(direction::to_client);
    // The answers arrive now, and report success.
    ASSERT_TRUE(eventually([&] { return !locks_.is_locked("other"); }));
    EXPECT_FALSE(lease->valid());
    { const auto gone = std::move(*lease); }
    EXPECT_FALSE(holds_lock(server_, "k"));
    EXPECT_EQ(losses_.losses().size(), 1U);
}

TEST_F(redis_keep_alive, a_lock_that_was_deleted_is_lost_at_the_next_renewal) {
    auto lease = locks_.acquire("k", {.ttl = 12s});
    ASSERT_TRUE(lease);
    lease->on_lost(losses_.handler());
    lease->keep_alive();
    const auto deadline = lease_clock::now() + lease->remaining();
    EXPECT_EQ(server_.command({"DEL", "syncguard:k"}).integer, 1);
    EXPECT_TRUE(eventually([&] { return losses_.any(); }));
    EXPECT_EQ(losses_.first().event.reason, loss_reason::not_held);
    EXPECT_LT(losses_.first().at, deadline);
    EXPECT_FALSE(lease->valid());
}

TEST_F(redis_keep_alive, a_lock_that_another_client_acquired_meanwhile_is_not_released) {
    auto lease = locks_.acquire("k", {.ttl = 3s});
    ASSERT_TRUE(lease);
    lease->on_lost(losses_.handler());
    EXPECT_TRUE(locks_.release(lease->lock_id()));
    auto other = open().acquire("k", {.ttl = 60s});
    ASSERT_TRUE(other);
    lease->keep_alive();
    EXPECT_TRUE(eventually([&] { return losses_.any(); }));
    EXPECT_EQ(losses_.first().event.reason, loss_reason::not_held);
    { const auto gone = std::move(*lease); }
    EXPECT_TRUE(holds_lock(server_, "k"));
    EXPECT_TRUE(other->extend({.ttl = 60s}));
}

TEST_F(durable_redis_keep_alive, a_server_that_is_back_in_time_causes_no_loss) {
    auto lease = locks_.acquire("k", {.ttl = 9s});
    ASSERT_TRUE(lease);
    lease->on_lost(losses_.handler());
    server_.kill();
    // The first renewal is due at once.
    lease->keep_alive({.ttl = 30s});
    EXPECT_TRUE(eventually([&] { return lease->renewal_failure() != nullptr; }, 8s));
    server_.restart();
    EXPECT_TRUE(eventually([&] { return lease->remaining() > 9s; }))
        << text_of(lease->renewal_failure());
    EXPECT_TRUE(lease->valid());
    EXPECT_FALSE(losses_.any());
    EXPECT_TRUE(lease->release());
}

TEST_F(redis_keep_alive, a_server_that_comes_back_without_the_lock_means_loss) {
    auto lease = locks_.acquire("k", {.ttl = 20s});
    ASSERT_TRUE(lease);
    lease->on_lost(losses_.handler());
    server_.restart();
    lease->keep_alive({.ttl = 60s});
    EXPECT_TRUE(eventually([&] { return losses_.any(); }, 19s));
    EXPECT_EQ(losses_.first().event.reason, loss_reason::not_held);
}

TEST_F(redis_keep_alive, two_hundred_busy_threads_do_not_delay_renewals) {
    constexpr milliseconds ttl{3'000};
    std::vector<any_result> kept;
    for (int i = 0; i < 10; ++i) {
        kept.push_back(locks_.acquire("kept:" + std::to_string(i), {.ttl = ttl}));
        ASSERT_TRUE(kept.back());
        kept.back()->on_lost(losses_.handler());
        kept.back()->keep_alive();
    }
    std::atomic<long> rounds{0};
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 200; ++i) {
            threads.emplace_back([&, i](const std::stop_token& stop) {
                while (!stop.stop_requested()) {
                    auto lease = locks_.acquire("busy:" + std::to_string(i));
                    ASSERT_TRUE(lease);
                    ASSERT_TRUE(lease->release());
                    ++rounds;
                }
            });
        }
        let_pass(2 * ttl);
        EXPECT_FALSE(losses_.any());
        for (auto& each : kept)
            EXPECT_TRUE(each->valid());
    }
    EXPECT_GT(rounds, 200);
}

TEST_F(redis_keep_alive, forty_thousand_outstanding_acquisitions_do_not_delay_renewals) {
    constexpr long outstanding = 40'000;
    const any_backend direct =
        redis::backend({.host = "127.0.0.1", .port = server_.port()}, quiet(60s));
    auto kept = direct.acquire("kept", {.ttl = 1s});
    ASSERT_TRUE(kept);
    kept->on_lost(losses_.handler());
    kept->keep_alive();
    std::atomic<long> under_way{0};
    std::atomic<long> max_under_way{0};
    std::atomic<long> granted{0};
    {
        const std::jthread flood([&](const std::stop_token& stop) {
            for (long i = 0; !stop.stop_requested(); ++i) {
                while (under_way >= outstanding)
                    std::this_thread::yield();
                max_under_way = std::max<long>(max_under_way, ++under_way);
                async_acquire(direct, "k:" + std::to_string(i), {.ttl = 60s},
                              [&](const std::exception_ptr& failure, any_result result) {
                                  if (!failure && result) {
                                      result->detach();
                                      ++granted;
                                  }
                                  --under_way;
                              });
            }
        });
        let_pass(5s);
        EXPECT_FALSE(losses_.any()) << text_of(losses_.first().event.cause);
        EXPECT_TRUE(kept->valid());
    }
    EXPECT_GE(max_under_way, outstanding / 4);
    EXPECT_GT(granted, 1000);
    ASSERT_TRUE(eventually([&] { return under_way == 0; }, 120s));
}

TEST_F(redis_keep_alive, leases_destroyed_during_a_renewal_leave_nothing_locked) {
    for (int round = 0; round < 20; ++round) {
        std::vector<any_result> held;
        for (int i = 0; i < 50; ++i) {
            held.push_back(locks_.acquire("k:" + std::to_string(i), {.ttl = 60s}));
            ASSERT_TRUE(held.back());
            held.back()->on_lost(losses_.handler());
            held.back()->keep_alive({.ttl = 120s});
        }
    }
    EXPECT_EQ(locks_in(server_), 0U);
    EXPECT_FALSE(losses_.any());
}

}  // namespace
}  // namespace syncguard::test
