/// A Redis server that goes away under load and comes back: exclusion, fences, and nobody stuck.
#include "redis/redis_fault.hpp"
#include "support/eventually.hpp"

#include <syncguard/async.hpp>

#include <boost/asio/use_future.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

const redis_server_options durable{.arguments = {"--appendonly", "yes", "--appendfsync", "always"}};

/// Threads that take a lock again and again, each in its own way, and watch each other.
class load {
  public:
    load(const any_backend& locks, int threads, milliseconds ttl) : ttl_(ttl) {
        for (int i = 0; i < threads; ++i) {
            threads_.emplace_back([this, &locks, i](const std::stop_token& stop) {
                while (!stop.stop_requested())
                    work(locks, "shared:" + std::to_string(i % 2), i % 3 == 0);
            });
        }
    }

    [[nodiscard]] long grants() const { return grants_; }
    [[nodiscard]] long failures() const { return failures_; }

    /// Waits for as many grants more.
    [[nodiscard]] bool goes_on(long more) const {
        const long wanted = grants_ + more;
        return eventually([&] { return grants_ >= wanted; });
    }

    void end() { threads_.clear(); }

  private:
    struct watched_key {
        std::atomic<int> holders{0};
        std::mutex mutex;
        fence last;
    };

    void work(const any_backend& locks, const std::string& key, bool asynchronously) {
        try {
            auto result = asynchronously ? async_acquire(locks, key, {.ttl = ttl_, .timeout = 1s},
                                                         boost::asio::use_future)
                                               .get()
                                         : locks.acquire(key, {.ttl = ttl_, .timeout = 1s});
            if (!result) {
                std::this_thread::yield();
                return;
            }
            use(key, *result);
            if (asynchronously) {
                (void)async_release(*result, {.timeout = 1s}, boost::asio::use_future).get();
            } else {
                (void)result->release({.timeout = 1s});
            }
        } catch (const lock_error& failure) {
            ++failures_;
            EXPECT_TRUE(failure.code() == error_code::service_unavailable ||
                        failure.code() == error_code::network_timeout)
                << failure.what();
        }
    }

    void use(const std::string& key, const any_lease& lease) {
        auto& watched = key == "shared:0" ? first_ : second_;
        ++grants_;
        // Held for a moment, and never after the lease's own end.
        if (lease.remaining() < ttl_ / 2) return;
        EXPECT_EQ(++watched.holders, 1) << key;
        {
            const std::lock_guard guard(watched.mutex);
            EXPECT_GT(lease.fence(), watched.last) << key;
            watched.last = lease.fence();
        }
        std::this_thread::yield();
        --watched.holders;
    }

    const milliseconds ttl_;
    watched_key first_;
    watched_key second_;
    std::atomic<long> grants_{0};
    std::atomic<long> failures_{0};
    std::vector<std::jthread> threads_;
};

class redis_restart : public testing::Test {
  protected:
    [[nodiscard]] any_backend open() const {
        return redis::backend({.host = "127.0.0.1", .port = server_.port()}, quiet());
    }

    redis_server server_{durable};
};

TEST_F(redis_restart, under_load_fences_go_on_and_nobody_shares_a_lock) {
    const auto locks = open();
    load many(locks, 12, 2s);
    for (int round = 0; round < 3; ++round) {
        ASSERT_TRUE(many.goes_on(50));
        server_.kill();
        const long before = many.failures();
        EXPECT_TRUE(eventually([&] { return many.failures() > before + 20; }));
        server_.restart();
    }
    EXPECT_TRUE(many.goes_on(200));
    many.end();
    EXPECT_TRUE(eventually([&] { return locks_in(server_) == 0; }, cleanup_time));
}

TEST_F(redis_restart, connections_that_are_killed_again_and_again_cost_nobody_the_lock) {
    const auto locks = open();
    load many(locks, 8, 1s);
    for (int round = 0; round < 100; ++round) {
        server_.command({"CLIENT", "KILL", "TYPE", "normal"});
        if (round % 10 == 0) {
            ASSERT_TRUE(many.goes_on(1));
        }
    }
    EXPECT_TRUE(many.goes_on(100));
    many.end();
    EXPECT_TRUE(eventually([&] { return locks_in(server_) == 0; }, cleanup_time));
}

TEST_F(redis_restart, a_server_that_forgets_its_scripts_is_told_them_again) {
    const auto locks = open();
    load many(locks, 8, 5s);
    for (int round = 0; round < 300; ++round)
        server_.command({"SCRIPT", "FLUSH"});
    EXPECT_TRUE(many.goes_on(100));
    many.end();
    EXPECT_EQ(many.failures(), 0);
    EXPECT_EQ(locks_in(server_), 0U);
}

TEST_F(redis_restart, a_lock_that_is_held_is_still_held_afterwards) {
    const auto locks = open();
    auto lease = locks.acquire("k", {.ttl = 60s});
    ASSERT_TRUE(lease);
    server_.restart();
    EXPECT_FALSE(locks.acquire("k"));
    EXPECT_TRUE(lease->extend({.ttl = 60s}));
    EXPECT_TRUE(lease->release());
}

}  // namespace
}  // namespace syncguard::test
