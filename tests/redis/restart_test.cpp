/// A Redis server that stops under load and restarts: mutual exclusion, fences, no hanging callers.
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

/// Threads that acquire locks in a loop, blocking or asynchronously, and check mutual exclusion.
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

    /// Waits for this many more grants.
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
        // The lock is held briefly, and never after the deadline of the lease.
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

TEST_F(redis_restart, under_load_fences_continue_and_no_lock_has_two_holders) {
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

TEST_F(redis_restart, repeatedly_killed_connections_cause_no_loss) {
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

TEST_F(redis_restart, scripts_that_the_server_has_forgotten_are_sent_again) {
    const auto locks = open();
    load many(locks, 8, 5s);
    for (int round = 0; round < 300; ++round)
        server_.command({"SCRIPT", "FLUSH"});
    EXPECT_TRUE(many.goes_on(100));
    many.end();
    EXPECT_EQ(many.failures(), 0);
    EXPECT_EQ(locks_in(server_), 0U);
}

TEST_F(redis_restart, a_held_lock_is_still_held_after_the_restart) {
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
