#include "memory/engine.hpp"
#include "support/child_process.hpp"
#include "support/expect_error.hpp"
#include "support/manual_clock.hpp"

#include <syncguard/lock.hpp>
#include <syncguard/memory.hpp>

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;

TEST(liveness, no_stored_time_overflows) {
    const unix_time now(milliseconds(1'700'000'000'000));
    EXPECT_EQ(longest_life(now + milliseconds(5), now), time_tolerance + milliseconds(5));
    EXPECT_GT(longest_life(unix_time::max(), now), milliseconds(0));
    EXPECT_LT(longest_life(unix_time::min(), now), milliseconds(0));
}

TEST(memory, separately_created_backends_do_not_share_locks) {
    const memory::backend a;
    const memory::backend b;
    const memory::backend copy_of_a = a;
    auto lease = a.acquire("k");
    ASSERT_TRUE(lease);
    EXPECT_FALSE(b.is_locked("k"));
    EXPECT_TRUE(copy_of_a.is_locked("k"));
}

TEST(memory, expired_locks_do_not_accumulate) {
    manual_clock clock;
    const auto engine =
        std::make_shared<memory::memory_engine>(memory::options{.clock = clock.as_wall_clock()});
    const any_backend locks(engine);
    std::size_t most = 0;
    for (int i = 0; i < 10'000; ++i) {
        auto lease = locks.acquire("key:" + std::to_string(i), {.ttl = 1s});
        ASSERT_TRUE(lease);
        lease->detach();
        clock.advance(100ms);
        most = std::max(most, engine->stored_locks());
    }
    // Twenty locks are live at any time: one is added every 100 ms, and each lives for two seconds.
    // The expired locks still stored are a small multiple of that, whatever the number of keys.
    EXPECT_LE(most, 200U);
}

TEST(memory, fences_can_continue_from_a_given_counter) {
    const memory::backend locks({.fences_start_after = 41});
    auto lease = locks.acquire("k");
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->fence().str(), "000000000000042");
}

TEST(memory, impossible_fences_are_refused) {
    expect_error(error_code::invalid_argument,
                 [] { memory::backend({.fences_start_after = fence::max_counter + 1}); });
    expect_error(error_code::invalid_argument,
                 [] { memory::backend({.fences_start_after = UINT64_MAX}); });
}

TEST(memory, a_child_forked_from_busy_threads_has_a_store_that_works) {
    const memory::backend locks;
    std::vector<std::jthread> busy;
    for (int i = 0; i < 3; ++i) {
        busy.emplace_back([&locks, i](const std::stop_token& stop) {
            while (!stop.stop_requested()) {
                auto lease = locks.acquire("thread:" + std::to_string(i));
            }
        });
    }
    for (int round = 0; round < 20; ++round) {
        child_process child([&] { return locks.acquire("child") ? 0 : 1; });
        EXPECT_EQ(child.wait(), 0);
    }
}

TEST(memory, a_fork_does_not_wait_for_threads_that_wait_for_a_lock) {
    const memory::backend locks;
    auto held = *locks.acquire("k");
    std::jthread waiting([&] { (void)acquire_with_retries(locks, "k", {.timeout = 1min}); });
    for (int round = 0; round < 20; ++round) {
        child_process child([&] { return locks.is_locked("k") ? 0 : 1; });
        EXPECT_EQ(child.wait(), 0);
    }
    held.release();
}

}  // namespace
}  // namespace syncguard::test
