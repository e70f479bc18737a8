/// Waiting for a lock: waiting callers are notified when it becomes free.
#include "contract/contract.hpp"
#include "support/cancelled_thread.hpp"
#include "support/counting_engine.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"

#include <syncguard/async.hpp>
#include <syncguard/lock.hpp>

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

using std::chrono::steady_clock;

class waiting : public testing::TestWithParam<engine_kind> {
  protected:
    /// Retries so rarely that a test that depends on a retry fails.
    static lock_options hardly_ever_retrying(milliseconds timeout = 10min) {
        return {.ttl = 60s,
                .timeout = timeout,
                .retry = {.max_retries = 1000,
                          .retry_delay = 5min,
                          .backoff = backoff::fixed,
                          .jitter = jitter::none}};
    }

    std::unique_ptr<engine_fixture> fixture_ = GetParam().make();
};

std::vector<engine_kind> stores_that_tell() {
    std::vector<engine_kind> kinds;
    for (const auto& kind : all_engines()) {
        if (kind.supports_waiting) kinds.push_back(kind);
    }
    return kinds;
}

SYNCGUARD_RUN_ON_ENGINES(waiting, stores_that_tell());

TEST_P(waiting, each_release_wakes_a_waiter_before_its_pause_ends) {
    constexpr int threads_each = 4;
    constexpr int turns = 10;
    const std::vector<any_backend> backends{fixture_->open(), fixture_->open(), fixture_->open()};
    std::atomic<int> inside{0};
    std::atomic<int> violations{0};
    const auto begin = steady_clock::now();
    auto first = acquire_with_retries(backends[0], "k");
    {
        std::vector<std::jthread> crowd;
        for (int i = 0; i < threads_each; ++i) {
            for (const auto& locks : backends) {
                crowd.emplace_back([&] {
                    for (int turn = 0; turn < turns; ++turn) {
                        auto lease = acquire_with_retries(locks, "k", hardly_ever_retrying());
                        if (++inside != 1) ++violations;
                        --inside;
                        if (!lease.release().ok) ++violations;
                    }
                });
            }
        }
        first.release();
    }
    EXPECT_EQ(violations, 0);
    EXPECT_LT(steady_clock::now() - begin, 2min) << "a waiter was not notified";
}

TEST_P(waiting, a_lock_granted_after_waiting_has_its_full_ttl) {
    const auto locks = fixture_->open();
    auto held = acquire_with_retries(locks, "k");
    const auto begin = steady_clock::now();
    std::jthread releasing([&] {
        // If the TTL counted from the start of the wait, this time would be missing.
        std::this_thread::sleep_for(300ms);
        held.release();
    });
    auto lease = acquire_with_retries(locks, "k", hardly_ever_retrying());
    const auto waited = steady_clock::now() - begin;
    // The lease is shorter than its TTL by the drift margin: 1 % of the TTL and 2 ms.
    EXPECT_GT(lease.remaining(), 60s - 602ms - waited + 200ms);
    EXPECT_LE(lease.remaining(), 60s);
}

TEST_P(waiting, a_stop_request_ends_the_call_at_once_and_leaves_nothing_locked) {
    const auto locks = fixture_->open();
    const auto others = fixture_->open();
    auto held = acquire_with_retries(others, "k");
    std::stop_source stop;
    auto options = hardly_ever_retrying();
    options.stop = stop.get_token();
    const auto begin = steady_clock::now();
    std::jthread stopping([&] { stop.request_stop(); });
    expect_error(error_code::aborted, [&] { (void)acquire_with_retries(locks, "k", options); });
    EXPECT_LT(steady_clock::now() - begin, 1min);
    held.release();
    EXPECT_FALSE(locks.is_locked("k"));
}

TEST_P(waiting, ends_at_its_timeout_and_the_owner_keeps_the_lock) {
    const auto locks = fixture_->open();
    auto held = acquire_with_retries(fixture_->open(), "k");
    const auto begin = steady_clock::now();
    expect_error(error_code::acquisition_timeout,
                 [&] { (void)acquire_with_retries(locks, "k", hardly_ever_retrying(200ms)); });
    EXPECT_GE(steady_clock::now() - begin, 200ms);
    EXPECT_LT(steady_clock::now() - begin, 1min);
    EXPECT_TRUE(held.release().ok);
}

TEST_P(waiting, keys_are_independent) {
    const auto locks = fixture_->open();
    auto a = acquire_with_retries(locks, "a");
    auto b = acquire_with_retries(locks, "b");
    std::jthread for_a([&] { (void)acquire_with_retries(locks, "a", hardly_ever_retrying()); });
    b.release();
    // Callers that wait for "a" do not delay it.
    EXPECT_TRUE(acquire_with_retries(locks, "b", hardly_ever_retrying()).release().ok);
    a.release();
}

TEST_P(waiting, ends_when_the_lock_expires_although_an_extension_has_shortened_it) {
    const auto others = fixture_->open();
    const auto id = others.acquire("k", {.ttl = 60s})->detach();
    const auto inner = fixture_->open();
    const auto counted =
        std::make_shared<counting_engine>(detail::access::core(inner).backing_engine());
    const any_backend locks(counted);
    auto granted = std::async(std::launch::async, [&] {
        return acquire_with_retries(locks, "k", hardly_ever_retrying()).release().ok;
    });
    // The first attempt, and the attempt that waits.
    ASSERT_TRUE(eventually([&] { return counted->calls() == 2; }));
    EXPECT_TRUE(others.extend(id.str(), {.ttl = 1ms}).ok);
    fixture_->advance(2s);
    ASSERT_EQ(granted.wait_for(20s), std::future_status::ready);
    EXPECT_TRUE(granted.get());
}

class waiting_without_notifications : public waiting {};
SYNCGUARD_RUN_ON_ENGINES(waiting_without_notifications, all_engines());

TEST_P(waiting_without_notifications, ends_by_the_next_retry) {
    const auto locks = fixture_->open();
    const auto id = locks.acquire("k", {.ttl = 60s})->detach();
    std::jthread waiting_one([&] {
        auto options = hardly_ever_retrying();
        options.retry.retry_delay = 20ms;
        EXPECT_TRUE(acquire_with_retries(locks, "k", options).release().ok);
    });
    EXPECT_TRUE(fixture_->open().release(id.str()).ok);
}

/// If the store sends notifications, waiters queue behind the first one; otherwise each makes its
/// own attempts.
TEST_P(waiting_without_notifications,
       a_later_caller_is_not_delayed_by_an_earlier_one_with_a_longer_pause) {
    const auto locks = fixture_->open();
    const auto id = locks.acquire("k", {.ttl = 60s})->detach();
    std::stop_source stop;
    auto options = hardly_ever_retrying();
    options.stop = stop.get_token();
    std::jthread first([&] {
        try {
            (void)acquire_with_retries(locks, "k", options);
        } catch (const lock_error& failure) {
            EXPECT_EQ(failure.code(), error_code::aborted);
        }
    });
    std::jthread second([&] {
        EXPECT_NO_THROW((void)acquire_with_retries(locks, "k", {.timeout = 20s}));
        stop.request_stop();
    });
    EXPECT_TRUE(fixture_->open().release(id.str()).ok);
}

class cancelled_thread : public waiting {};
SYNCGUARD_RUN_ON_ENGINES(cancelled_thread, all_engines());

TEST_P(cancelled_thread, ends_after_its_waiting_call_has_returned_and_releases_its_lock) {
    const auto locks = fixture_->open();
    auto held = acquire_with_retries(fixture_->open(), "k");
    std::atomic<bool> has_begun{false};
    std::atomic<bool> has_had_it{false};
    std::thread waiting_one([&] {
        has_begun = true;
        auto options = hardly_ever_retrying();
        options.retry.retry_delay = 20ms;
        const auto lease = acquire_with_retries(locks, "k", options);
        has_had_it = true;
        while (true)
            ::pthread_testcancel();
    });
    EXPECT_TRUE(eventually([&] { return has_begun.load(); }));
    ASSERT_EQ(::pthread_cancel(waiting_one.native_handle()), 0);
    EXPECT_TRUE(held.release().ok);
    waiting_one.join();
    EXPECT_TRUE(has_had_it);
    EXPECT_FALSE(locks.is_locked("k"));
}

TEST_P(cancelled_thread, ends_after_the_call_that_releases_its_lock) {
    const auto locks = fixture_->open({.dispose_timeout = 1min});
    EXPECT_TRUE(returns_on_cancelled_thread([&] { lock(locks, "k", [] {}); }));
    EXPECT_FALSE(locks.is_locked("k"));
}

TEST_P(cancelled_thread, ends_after_the_asynchronous_call_that_it_begins) {
    const auto locks = fixture_->open();
    const auto granted = std::make_shared<std::promise<bool>>();
    EXPECT_TRUE(returns_on_cancelled_thread([&] {
        async_acquire(locks, "k", {}, [granted](const std::exception_ptr& failure, any_result got) {
            granted->set_value(failure == nullptr && got);
        });
    }));
    EXPECT_TRUE(granted->get_future().get());
}

TEST_P(cancelled_thread, ends_after_its_stop_request_to_a_waiting_call) {
    const auto held = acquire_with_retries(fixture_->open(), "k");
    const auto inner = fixture_->open();
    const auto engine = detail::access::core(inner).backing_engine();
    const auto counted = std::make_shared<counting_engine>(engine);
    const any_backend locks(counted);
    std::stop_source stop;
    auto waits = std::async(std::launch::async, [&] {
        auto options = hardly_ever_retrying();
        options.stop = stop.get_token();
        expect_error(error_code::aborted, [&] { (void)acquire_with_retries(locks, "k", options); });
    });
    // If the store sends notifications, the second attempt waits for one.
    const auto attempts = engine->supports_waiting() ? 2 : 1;
    EXPECT_TRUE(eventually([&] { return counted->calls() == attempts; }));
    EXPECT_TRUE(returns_on_cancelled_thread([&] { stop.request_stop(); }));
    waits.get();
}

}  // namespace
}  // namespace syncguard::test
