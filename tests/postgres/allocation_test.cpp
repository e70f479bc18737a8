/// Out of memory in the PostgreSQL engine: the Nth allocation of a caller fails, for every N up to
/// the last allocation. Allocations of libpq do not fail.
#include "postgres/postgres_fault.hpp"
#include "support/eventually.hpp"
#include "support/failing_allocation.hpp"

#include <syncguard/lock.hpp>

#include <gtest/gtest.h>

#include <string>

namespace syncguard::test {
namespace {

constexpr const char* key = "a key that is too long for the small string optimisation";

constexpr const char* other_key = "a key that another client has, as long as the other";

class postgres_out_of_memory : public postgres_fault {
  protected:
    /// Runs `action` with each of its allocations failing. Whatever the result: the call returns in
    /// time, the next call succeeds, and nothing stays locked.
    template <class Prepare, class Action>
    void fail_every_allocation_of(Prepare prepare, Action action) {
        long nth = 0;
        bool struck = true;
        for (; struck; ++nth) {
            ASSERT_LT(nth, 3000);
            const auto locks = open();
            prepare(locks);
            const auto begin = steady_clock::now();
            struck = with_failing_allocation(nth, [&] {
                try {
                    action(locks);
                } catch (const lock_error&) {
                    // The error depends on the allocation that failed.
                }
            });
            EXPECT_LT(steady_clock::now() - begin, 5s + margin) << "allocation " << nth;
            ASSERT_NO_THROW((void)locks.is_locked("other")) << "allocation " << nth;
            EXPECT_TRUE(eventually([&] { return !locks.is_locked(key); }, cleanup_time))
                << "allocation " << nth;
        }
        EXPECT_GT(nth, 10);
    }
};

void acquire_and_release(const any_backend& locks) {
    auto lease = locks.acquire(key, {.ttl = 60s});
    if (lease) lease->release();
}

TEST_F(postgres_out_of_memory, while_it_connects_a_caller_leaves_nothing_locked) {
    fail_every_allocation_of([](const any_backend&) {}, acquire_and_release);
}

TEST_F(postgres_out_of_memory, on_an_existing_connection_a_caller_leaves_nothing_locked) {
    fail_every_allocation_of([](const any_backend& locks) { (void)locks.is_locked("warm-up"); },
                             acquire_and_release);
}

TEST_F(postgres_out_of_memory, a_client_that_ends_at_once_leaves_nothing_locked) {
    auto asks = server().connect();
    const auto sessions_of_others = [&] {
        return asks.value(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
    };
    bool struck = true;
    for (long nth = 0; struck; ++nth) {
        ASSERT_LT(nth, 3000);
        {
            const auto locks = open();
            struck = with_failing_allocation(nth, [&] {
                try {
                    acquire_and_release(locks);
                } catch (const lock_error&) {
                    // The error depends on the allocation that failed.
                }
            });
        }
        // Only then has the server executed all statements that it received.
        ASSERT_TRUE(eventually([&] { return sessions_of_others() == "0"; }, cleanup_time));
        ASSERT_FALSE(holds_lock(server(), key)) << "allocation " << nth;
    }
}

TEST_F(postgres_out_of_memory, when_the_connection_breaks_a_caller_leaves_nothing_locked) {
    fail_every_allocation_of(
        [](const any_backend& locks) {
            (void)locks.is_locked("warm-up");
            server().run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
        },
        acquire_and_release);
}

TEST_F(postgres_out_of_memory, when_the_server_refuses_a_caller_gets_the_error) {
    fail_every_allocation_of([](const any_backend&) {},
                             [](const any_backend&) {
                                 const postgres::backend wrong(
                                     {.connection = server().url(), .tables = {.locks = "absent"}});
                                 (void)wrong.acquire(key, {.ttl = 60s});
                             });
}

TEST_F(postgres_out_of_memory, a_caller_that_waits_for_a_lock_returns) {
    const auto holder = open();
    const auto id = holder.acquire(other_key, {.ttl = 600s})->detach();
    fail_every_allocation_of([&](const any_backend& locks) { (void)locks.is_locked("warm-up"); },
                             [&](const any_backend& locks) {
                                 (void)acquire_with_retries(locks, other_key,
                                                            {.ttl = 60s, .timeout = 50ms});
                             });
    EXPECT_TRUE(holder.release(id).ok);
}

}  // namespace
}  // namespace syncguard::test
