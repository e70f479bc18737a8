/// Out of memory in the Redis engine: the Nth allocation of a caller fails, for every N up to the
/// last allocation.
#include "redis/redis_fault.hpp"
#include "support/eventually.hpp"
#include "support/failing_allocation.hpp"

#include <syncguard/async.hpp>

#include <boost/asio/use_future.hpp>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>

namespace syncguard::test {
namespace {

constexpr const char* key = "a key that is too long for the small string optimisation";

class redis_out_of_memory : public testing::Test {
  protected:
    /// Runs `action` with each of its allocations failing, or with several failing in a row.
    /// Whatever the result: the call returns in time, the next call succeeds, and nothing stays
    /// locked.
    template <class Prepare, class Action>
    void fail_every_allocation_of(Prepare prepare, Action action) {
        long nth = 0;
        bool struck = true;
        for (; struck; ++nth) {
            ASSERT_LT(nth, 3000);
            const any_backend locks =
                redis::backend({.host = "127.0.0.1", .port = server_.port()}, quiet(2s));
            prepare(locks);
            const auto taken = time_of([&] {
                struck = with_failing_allocation(nth, [&] {
                    try {
                        action(locks);
                    } catch (const lock_error&) {
                        // The error depends on the allocation that failed.
                    }
                });
            });
            EXPECT_LT(taken, 2s + margin) << "allocation " << nth;
            ASSERT_NO_THROW((void)locks.is_locked("other")) << "allocation " << nth;
            EXPECT_TRUE(eventually([&] { return !holds_lock(server_, key); }, cleanup_time))
                << "allocation " << nth;
        }
        EXPECT_GT(nth, 10);
    }

    redis_server server_;
};

TEST_F(redis_out_of_memory, while_it_connects_a_caller_leaves_nothing_locked) {
    fail_every_allocation_of([](const any_backend&) {},
                             [](const any_backend& locks) {
                                 auto lease = locks.acquire(key, {.ttl = 60s});
                                 if (lease) lease->release();
                             });
}

TEST_F(redis_out_of_memory, on_an_existing_connection_a_caller_leaves_nothing_locked) {
    fail_every_allocation_of([](const any_backend& locks) { (void)locks.is_locked("warm-up"); },
                             [](const any_backend& locks) {
                                 auto lease = locks.acquire(key, {.ttl = 60s});
                                 if (lease) lease->release();
                             });
}

TEST_F(redis_out_of_memory, when_the_script_is_unknown_a_caller_leaves_nothing_locked) {
    fail_every_allocation_of(
        [&](const any_backend& locks) {
            (void)locks.is_locked("warm-up");
            server_.command({"SCRIPT", "FLUSH"});
        },
        [](const any_backend& locks) {
            auto lease = locks.acquire(key, {.ttl = 60s});
            if (lease) lease->release();
        });
}

TEST_F(redis_out_of_memory, after_several_failures_in_a_row_no_caller_gets_anothers_answer) {
    // There may be no memory for a release either: a lock without a holder then stays.
    for (const long in_a_row : {2, 3, 5}) {
        bool struck = true;
        for (long nth = 0; struck; ++nth) {
            SCOPED_TRACE(std::to_string(in_a_row) + " from allocation " + std::to_string(nth));
            const any_backend locks =
                redis::backend({.host = "127.0.0.1", .port = server_.port()}, quiet(2s));
            (void)locks.is_locked("warm-up");
            server_.command({"FLUSHALL"});
            server_.command({"SCRIPT", "FLUSH"});
            bool granted = false;
            const auto acquire = [&] {
                try {
                    auto lease = locks.acquire(key, {.ttl = 60s});
                    granted = static_cast<bool>(lease);
                    if (granted) lease->detach();
                } catch (const lock_error&) {
                }
            };
            const auto taken =
                time_of([&] { struck = with_failing_allocation(nth, acquire, in_a_row); });
            EXPECT_LT(taken, 1s);  // the caller does not wait for a request that was not sent
            EXPECT_TRUE(!granted || holds_lock(server_, key));
            EXPECT_FALSE(locks.is_locked("other"));
            EXPECT_TRUE(locks.acquire("another"));
        }
    }
}

TEST_F(redis_out_of_memory, when_the_server_refuses_a_caller_gets_the_error) {
    fail_every_allocation_of(
        [&](const any_backend& locks) {
            server_.command({"CONFIG", "SET", "maxmemory", "0"});
            (void)locks.is_locked("warm-up");
            server_.command({"CONFIG", "SET", "maxmemory", "1"});
        },
        [](const any_backend& locks) { (void)locks.acquire(key, {.ttl = 60s}); });
}

TEST_F(redis_out_of_memory, when_the_connection_breaks_a_caller_leaves_nothing_locked) {
    fail_every_allocation_of(
        [&](const any_backend& locks) {
            (void)locks.is_locked("warm-up");
            server_.command({"CLIENT", "KILL", "TYPE", "normal"});
        },
        [](const any_backend& locks) {
            auto lease = locks.acquire(key, {.ttl = 60s});
            if (lease) lease->release();
        });
}

TEST_F(redis_out_of_memory, while_the_fallback_thread_leads_a_caller_leaves_nothing_locked) {
    // An asynchronous call whose answer does not arrive keeps the fallback thread running.
    fault_proxy proxy(server_.port());
    proxy.stall(direction::to_client);
    long nth = 0;
    bool struck = true;
    const any_backend locks =
        redis::backend({.host = "127.0.0.1", .port = proxy.port()}, quiet(10s));
    auto pending = async_is_locked(locks, "other", {}, boost::asio::use_future);
    for (; struck; ++nth) {
        ASSERT_LT(nth, 1000);
        const auto taken = time_of([&] {
            struck = with_failing_allocation(nth, [&] {
                try {
                    (void)locks.acquire(key, {.ttl = 60s, .timeout = 100ms});
                } catch (const lock_error&) {
                }
            });
        });
        EXPECT_LT(taken, 100ms + margin) << "allocation " << nth;
        // The leader still receives.
        const auto next = time_of(
            [&] { EXPECT_THROW((void)locks.is_locked("x", {.timeout = 20ms}), lock_error); });
        EXPECT_LT(next, 20ms + margin) << "allocation " << nth;
    }
    proxy.resume(direction::to_client);
    EXPECT_FALSE(pending.get());
    EXPECT_TRUE(eventually([&] { return !holds_lock(server_, key); }, cleanup_time));
}

TEST_F(redis_out_of_memory, with_work_left_for_a_thread_a_caller_leaves_nothing_locked) {
    // The caller returns while the release of a cancelled acquisition is outstanding: the fallback
    // thread must take over.
    long nth = 0;
    bool struck = true;
    fault_proxy proxy(server_.port());
    for (; struck; ++nth) {
        ASSERT_LT(nth, 1000);
        const any_backend locks =
            redis::backend({.host = "127.0.0.1", .port = proxy.port()}, quiet(2s));
        (void)locks.is_locked("warm-up");
        proxy.stall(direction::to_client);
        struck = with_failing_allocation(nth, [&] {
            try {
                (void)locks.acquire(key, {.ttl = 60s, .timeout = 5ms});
            } catch (const lock_error&) {
            }
        });
        proxy.resume(direction::to_client);
        ASSERT_NO_THROW((void)locks.is_locked("other")) << "allocation " << nth;
        EXPECT_TRUE(eventually([&] { return !holds_lock(server_, key); }, cleanup_time))
            << "allocation " << nth;
    }
}

TEST_F(redis_out_of_memory, an_asynchronous_caller_leaves_nothing_locked) {
    fail_every_allocation_of(
        [](const any_backend& locks) {
            // Asio's system executor, created at first use, does not survive allocation failures.
            (void)async_is_locked(locks, "warm-up", {}, boost::asio::use_future).get();
        },
        [](const any_backend& locks) {
            auto result = async_acquire(locks, key, {.ttl = 60s}, boost::asio::use_future);
            if (auto lease = result.get()) lease->release();
        });
}

}  // namespace
}  // namespace syncguard::test
