/// The state of a lease on a real Redis server when answers are late or lost, when the server's
/// clock runs faster, and when the lease is destroyed during its release.
#include "redis/redis_fault.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"

#include <syncguard/async.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace syncguard::test {
namespace {

class redis_lease : public testing::Test {
  protected:
    [[nodiscard]] any_backend through_proxy(backend_options options = quiet()) const {
        return redis::backend({.host = "127.0.0.1", .port = proxy_.port()}, std::move(options));
    }

    redis_server server_;
    fault_proxy proxy_{server_.port()};
    any_backend direct_ = redis::backend({.host = "127.0.0.1", .port = server_.port()}, quiet());
};

TEST_F(redis_lease, ends_before_another_is_granted_even_if_a_shorter_extension_is_unanswered) {
    const auto locks = through_proxy();
    auto lease = locks.acquire("k", {.ttl = 30s});
    ASSERT_TRUE(lease);
    proxy_.stall(direction::to_client);
    auto extending = std::async(std::launch::async, [&] {
        expect_error(error_code::network_timeout,
                     [&] { (void)lease->extend({.ttl = 500ms, .timeout = 2s}); });
    });
    any_result other;
    EXPECT_TRUE(eventually([&] {
        other = direct_.acquire("k", {.ttl = 30s});
        return bool(other);
    }));
    EXPECT_FALSE(lease->valid());
    extending.get();
    EXPECT_FALSE(lease->valid());
    proxy_.resume(direction::to_client);
    // Later calls on the same lease cannot revive it.
    EXPECT_FALSE(lease->extend({.ttl = 30s}).ok);
    EXPECT_TRUE(other->extend({.ttl = 30s}).ok);
}

TEST_F(redis_lease, ends_before_a_server_whose_clock_runs_one_per_cent_fast_ends_the_lock) {
    redis_server fast({.controlled_clock = true});
    const any_backend locks = redis::backend({.host = "127.0.0.1", .port = fast.port()}, quiet());
    (void)locks.is_locked("warm-up");
    auto lease = locks.acquire("k", {.ttl = 5s});
    ASSERT_TRUE(lease);
    const auto granted = steady_clock::now();
    milliseconds ahead{0};
    bool granted_to_another = false;
    EXPECT_TRUE(eventually([&] {
        const auto due = std::chrono::floor<milliseconds>((steady_clock::now() - granted) * 1.0099);
        fast.advance(due - ahead);
        ahead = due;
        const auto other = locks.acquire("k", {.ttl = 5s});
        granted_to_another = bool(other);
        EXPECT_FALSE(granted_to_another && lease->valid());
        return granted_to_another;
    }));
}

boost::asio::awaitable<void> release_asynchronously(any_backend locks, std::string key) {
    auto lease = co_await async_acquire(locks, key, {.ttl = 60s}, boost::asio::use_awaitable);
    if (lease) co_await async_release(*lease, {}, boost::asio::use_awaitable);
}

TEST_F(redis_lease, destroyed_with_its_context_during_its_release_is_still_released) {
    const auto locks = through_proxy();
    (void)locks.is_locked("warm-up");
    for (int round = 0; round < 50; ++round) {
        const auto before = proxy_.forwarded(direction::to_server);
        auto io = std::make_unique<boost::asio::io_context>();
        boost::asio::co_spawn(*io, release_asynchronously(locks, "k" + std::to_string(round)),
                              boost::asio::detached);
        // Runs until the acquisition is answered and the release is started, but not always sent.
        while (proxy_.forwarded(direction::to_server) == before || round % 5 != 0) {
            if (io->run_one_for(20ms) == 0) break;
            if (holds_lock(server_, "k" + std::to_string(round))) break;
        }
        io.reset();
    }
    EXPECT_TRUE(eventually([&] { return locks_in(server_) == 0; }, cleanup_time));
}

TEST_F(redis_lease, destroyed_during_a_release_that_times_out_is_still_released) {
    const auto locks = through_proxy();
    auto lease =
        std::make_optional(async_acquire(locks, "k", {.ttl = 60s}, boost::asio::use_future).get());
    ASSERT_TRUE(*lease);
    proxy_.stall(direction::to_server);
    auto releasing = async_release(**lease, {.timeout = 200ms}, boost::asio::use_future);
    lease.reset();
    expect_error(error_code::network_timeout, [&] { (void)releasing.get(); });
    EXPECT_TRUE(holds_lock(server_, "k"));
    proxy_.resume(direction::to_server);
    EXPECT_TRUE(eventually([&] { return locks_in(server_) == 0; }, cleanup_time));
}

/// The answer to an extension arrives after the lease has ended.
TEST_F(redis_lease, reports_a_loss_found_by_a_late_answer_to_a_later_handler_too) {
    const auto locks = through_proxy();
    auto lease = locks.acquire("k", {.ttl = 30s});
    ASSERT_TRUE(lease);
    proxy_.delay(direction::to_client, 400ms);
    EXPECT_FALSE(lease->extend({.ttl = 200ms}).ok);
    std::atomic<bool> was_told{false};
    lease->on_lost([&](const loss& lost) { was_told = lost.reason == loss_reason::expired; });
    EXPECT_TRUE(eventually([&] { return was_told.load(); }));
    EXPECT_TRUE(lease->stop_token().stop_requested());
}

TEST_F(redis_lease, waits_for_its_loss_handler_even_if_destroyed_during_a_release) {
    const auto locks = through_proxy();
    std::atomic<bool> has_begun{false};
    std::atomic<bool> has_ended{false};
    std::promise<void> may_end;
    std::thread handler_ends_later;
    {
        auto lease = locks.acquire("k", {.ttl = 150ms});
        ASSERT_TRUE(lease);
        lease->on_lost([&](const loss&) {
            has_begun = true;
            may_end.get_future().wait();
            has_ended = true;
        });
        ASSERT_TRUE(eventually([&] { return has_begun.load(); }));
        proxy_.stall(direction::to_client);
        async_release(*lease, {}, [](std::exception_ptr, release_result) {});
        handler_ends_later = std::thread([&] {
            std::this_thread::sleep_for(300ms);  // meanwhile the destructor begins to wait
            may_end.set_value();
        });
    }
    EXPECT_TRUE(has_ended);
    handler_ends_later.join();
    proxy_.resume(direction::to_client);
}

TEST_F(redis_lease, a_release_handler_that_waits_for_a_call_does_not_stop_it) {
    std::promise<void> call_ended;
    std::promise<bool> handled;
    auto options = quiet();
    options.operation_timeout = 300ms;
    options.on_release_error = [&, after_call = call_ended.get_future().share()](
                                   const lock_error&, const release_error_context&) {
        handled.set_value(after_call.wait_for(20s) == std::future_status::ready);
    };
    const auto locks = through_proxy(options);
    {
        auto lease = async_acquire(locks, "k", {.ttl = 60s}, boost::asio::use_future).get();
        ASSERT_TRUE(lease);
        proxy_.stall(direction::to_client);
    }
    // The thread of this call performs the I/O when the release fails.
    const auto began = steady_clock::now();
    expect_error(error_code::network_timeout,
                 [&] { (void)locks.is_locked("other", {.timeout = 2s}); });
    EXPECT_LT(steady_clock::now() - began, 10s);
    call_ended.set_value();
    EXPECT_TRUE(handled.get_future().get());
    proxy_.resume(direction::to_client);
}

TEST_F(redis_lease, reports_one_release_error_although_the_release_fails_after_dispose_timeout) {
    std::atomic<int> calls{0};
    auto options = quiet();
    options.operation_timeout = 1s;
    options.dispose_timeout = 100ms;
    options.on_release_error = [&](const lock_error&, const release_error_context&) { ++calls; };
    const auto locks = through_proxy(options);
    {
        auto lease = locks.acquire("k", {.ttl = 60s});
        ASSERT_TRUE(lease);
        proxy_.stall(direction::to_client);
    }
    EXPECT_EQ(calls, 1);
    // This call ends after the release, which was sent earlier and has a shorter timeout.
    expect_error(error_code::network_timeout,
                 [&] { (void)locks.is_locked("other", {.timeout = 2s}); });
    EXPECT_EQ(calls, 1);
    proxy_.resume(direction::to_client);
}

}  // namespace
}  // namespace syncguard::test
