#include "support/counting_engine.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"
#include "support/scripted_engine.hpp"

#include <syncguard/async.hpp>
#include <syncguard/lock.hpp>
#include <syncguard/memory.hpp>

#include <boost/asio/use_future.hpp>

#include <atomic>
#include <future>
#include <memory>
#include <thread>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

TEST(lock, the_function_runs_under_the_lock_and_the_lock_is_free_afterwards) {
    const memory::backend locks;
    bool ran = false;
    lock(locks, "k", [&](held& held) {
        ran = true;
        EXPECT_TRUE(locks.is_locked("k"));
        EXPECT_EQ(held.key(), "k");
        EXPECT_EQ(held.fence().str(), "000000000000001");
        EXPECT_TRUE(lock_id::is_valid(held.lock_id()));
        EXPECT_TRUE(held.valid());
        EXPECT_GT(held.remaining(), 29s);
        EXPECT_TRUE(held.extend({.ttl = 60s}).ok);
        EXPECT_GT(held.remaining(), 59s);
    });
    EXPECT_TRUE(ran);
    EXPECT_FALSE(locks.is_locked("k"));
}

TEST(lock, the_result_of_the_function_is_returned) {
    const memory::backend locks;
    EXPECT_EQ(lock(locks, "k", [] { return 42; }), 42);
    auto moved = lock(locks, "k", [] { return std::make_unique<int>(7); });
    EXPECT_EQ(*moved, 7);
    int target = 0;
    int& reference = lock(locks, "k", [&]() -> int& { return target; });
    EXPECT_EQ(&reference, &target);
    static_assert(std::is_void_v<decltype(lock(locks, "k", [] {}))>);
}

TEST(lock, an_exception_of_the_function_is_rethrown_after_the_release) {
    const memory::backend locks;
    EXPECT_THROW(lock(locks, "k", [] { throw std::out_of_range("mine"); }), std::out_of_range);
    EXPECT_FALSE(locks.is_locked("k"));
}

TEST(lock, any_backend_is_accepted) {
    const any_backend locks = memory::backend();
    EXPECT_EQ(lock(locks, "k", [](held& held) { return held.fence(); }), fence::from_counter(1));
}

TEST(lock, waits_until_the_lock_is_free) {
    const memory::backend locks;
    auto holder = locks.acquire("k");
    auto waiting = std::async(std::launch::async, [&] {
        return lock(
            locks, "k", [](held& held) { return held.fence(); },
            {.timeout = 20s,
             .retry = {.max_retries = 1000, .retry_delay = 1ms, .backoff = backoff::fixed}});
    });
    EXPECT_EQ(waiting.wait_for(30ms), std::future_status::timeout);
    ASSERT_TRUE(holder->release().ok);
    EXPECT_EQ(waiting.get(), fence::from_counter(2));
}

TEST(lock, fails_after_the_last_retry) {
    std::atomic<int> attempts{0};
    const any_backend locks(
        std::make_shared<scripted_engine>([&](const request&, const call_limits&) {
            ++attempts;
            return outcome::failed(failure_reason::locked);
        }));
    const auto failure = expect_error(error_code::acquisition_timeout, [&] {
        lock(locks, "k", [] { FAIL(); }, {.retry = {.max_retries = 3, .retry_delay = 1ms}});
    });
    EXPECT_EQ(attempts, 4);
    EXPECT_EQ(failure->key(), "k");
}

TEST(lock, no_retries_means_one_attempt) {
    const memory::backend locks;
    auto holder = locks.acquire("k");
    const auto began = steady_clock::now();
    expect_error(error_code::acquisition_timeout,
                 [&] { lock(locks, "k", [] {}, {.retry = {.max_retries = 0}}); });
    EXPECT_LT(steady_clock::now() - began, 5s);
}

TEST(lock, fails_at_its_timeout_and_never_sleeps_past_it) {
    const memory::backend locks;
    auto holder = locks.acquire("k");
    const auto began = steady_clock::now();
    expect_error(error_code::acquisition_timeout, [&] {
        lock(locks, "k", [] {},
             {.timeout = 50ms, .retry = {.retry_delay = 1h, .jitter = jitter::none}});
    });
    const auto waited = steady_clock::now() - began;
    EXPECT_GE(waited, 50ms);
    EXPECT_LT(waited, 5s);
}

/// Grants a key to one caller after another. Never notifies when the key becomes free: it either
/// does not support that, or currently fails to.
class silent_engine : public scripted_engine {
  public:
    explicit silent_engine(bool supports_waiting)
        : scripted_engine([this](const request& req, const call_limits&) { return answer(req); }),
          supports_waiting_(supports_waiting) {}

    [[nodiscard]] bool supports_waiting() const noexcept override { return supports_waiting_; }

    std::atomic<bool> is_locked{true};
    std::atomic<int> attempts{0};

  private:
    outcome answer(const request& req) {
        if (std::holds_alternative<release_request>(req)) {
            is_locked = false;
            return outcome::done();
        }
        ++attempts;
        if (is_locked.exchange(true)) return outcome::locked();
        return outcome::granted(unix_time(1h), fence::from_counter(++grants_));
    }

    const bool supports_waiting_;
    std::atomic<std::uint64_t> grants_{0};
};

/// The first waiter sleeps for as long as its policy says.
TEST(lock, a_caller_queued_behind_a_sleeping_one_tries_within_its_own_timeout) {
    for (const bool notifies : {false, true}) {
        const auto store = std::make_shared<silent_engine>(notifies);
        const any_backend locks(store);
        std::stop_source stop;
        auto first = std::async(std::launch::async, [&] {
            (void)acquire_with_retries(locks, "k",
                                       {.timeout = 1h,
                                        .retry = {.retry_delay = 1h, .jitter = jitter::none},
                                        .stop = stop.get_token()});
        });
        // One attempt without waiting, and one that waits.
        ASSERT_TRUE(eventually([&] { return store->attempts == (notifies ? 2 : 1); }));
        auto second = std::async(std::launch::async,
                                 [&] { (void)acquire_with_retries(locks, "k", {.timeout = 10s}); });
        EXPECT_TRUE(eventually([&] { return store->attempts == (notifies ? 3 : 2); })) << notifies;
        store->is_locked = false;
        EXPECT_NO_THROW(second.get()) << notifies;
        stop.request_stop();
        EXPECT_THROW(first.get(), lock_error) << notifies;
    }
}

TEST(lock, a_caller_whose_pause_is_longer_than_its_timeout_tries_again_before_the_timeout) {
    const auto store = std::make_shared<silent_engine>(false);
    const any_backend locks(store);
    auto waiter = std::async(std::launch::async, [&] {
        (void)acquire_with_retries(
            locks, "k", {.timeout = 2s, .retry = {.retry_delay = 1h, .jitter = jitter::none}});
    });
    ASSERT_TRUE(eventually([&] { return store->attempts == 1; }));
    store->is_locked = false;
    EXPECT_NO_THROW(waiter.get());
}

/// The looping client is granted the key at the first attempt of each call, and so cannot notice
/// again that the engine does not notify it.
TEST(lock, a_looping_client_leaves_the_key_to_others_if_the_engine_did_not_notify_it) {
    const auto store = std::make_shared<silent_engine>(true);
    std::atomic<bool> has_had_it{false};
    std::atomic<bool> ended{false};
    std::jthread looping([&] {
        const any_backend locks(store);
        while (!ended) {
            lock(locks, "k",
                 [&] {
                     has_had_it = true;
                     std::this_thread::sleep_for(10ms);
                 },
                 {.timeout = 1min});
        }
    });
    // One attempt without waiting, and one that waits.
    ASSERT_TRUE(eventually([&] { return store->attempts >= 2; }));
    store->is_locked = false;
    ASSERT_TRUE(eventually([&] { return has_had_it.load(); }));
    const any_backend locks(store);
    for (int turn = 0; turn < 3; ++turn) {
        EXPECT_NO_THROW(
            lock(locks, "k", [] {},
                 {.timeout = 8s, .retry = {.max_retries = retry_policy::unlimited_retries}}));
    }
    ended = true;
}

/// Notifies waiters only while the test lets it.
class sometimes_silent_engine : public counting_engine {
  public:
    using counting_engine::counting_engine;

    [[nodiscard]] outcome execute(const request& req, const call_limits& limits) override {
        request forwarded = req;
        auto* const acquisition = std::get_if<acquire_request>(&forwarded);
        if (acquisition != nullptr && !notifies) acquisition->wait_until = {};
        return counting_engine::execute(forwarded, limits);
    }

    std::atomic<bool> notifies{false};
};

TEST(lock, a_client_that_the_engine_notifies_again_no_longer_leaves_the_key_to_others) {
    const memory::backend others;
    const auto store =
        std::make_shared<sometimes_silent_engine>(detail::access::core(others).backing_engine());
    const any_backend locks(store);
    const auto wait_for_another = [&] {
        auto held = others.acquire("k");
        const auto before = store->calls();
        auto waiter = std::async(std::launch::async, [&] {
            return acquire_with_retries(locks, "k", {.timeout = 1min});
        });
        // One attempt without waiting, and one that waits.
        EXPECT_TRUE(eventually([&] { return store->calls() >= before + 2; }));
        EXPECT_TRUE(held->release().ok);
        auto lease = waiter.get();
        // The client would leave the key to others for as long as it has held it.
        std::this_thread::sleep_for(300ms);
        EXPECT_TRUE(lease.release().ok);
    };
    const auto time_of_next = [&] {
        const auto begin = steady_clock::now();
        lock(locks, "k", [] {});
        return steady_clock::now() - begin;
    };
    wait_for_another();
    EXPECT_GT(time_of_next(), 100ms);
    store->notifies = true;
    // Repeated because other programs may delay this one.
    EXPECT_TRUE(eventually([&] {
        wait_for_another();
        return time_of_next() < 150ms;
    }));
}

/// An engine that sends notifications. Its first waiter waits until the test ends.
TEST(lock, a_caller_queued_behind_one_that_waits_for_notifications_tries_before_its_timeout) {
    const memory::backend inner;
    std::atomic<int> attempts{0};
    const auto store =
        std::make_shared<counting_engine>(detail::access::core(inner).backing_engine());
    const any_backend locks(store);
    auto held = locks.acquire("k");
    std::stop_source stop;
    auto first = std::async(std::launch::async, [&] {
        (void)acquire_with_retries(locks, "k",
                                   {.timeout = 1h,
                                    .retry = {.retry_delay = 1h, .jitter = jitter::none},
                                    .stop = stop.get_token()});
    });
    // The attempt of the holder, the first attempt of the waiter, and its attempt that waits.
    ASSERT_TRUE(eventually([&] { return store->calls() == 3; }));
    const auto failure = expect_error(error_code::acquisition_timeout, [&] {
        (void)acquire_with_retries(locks, "k", {.timeout = 400ms});
    });
    EXPECT_EQ(store->calls(), 4);
    EXPECT_NE(std::string(failure->what()).find("1 of 1 attempt"), std::string::npos)
        << failure->what();
    stop.request_stop();
    EXPECT_THROW(first.get(), lock_error);
}

TEST(lock, growing_pauses_do_not_keep_the_first_in_the_queue_from_a_free_lock) {
    const auto store = std::make_shared<silent_engine>(false);
    const any_backend locks(store);
    std::jthread freeing([&] {
        // With the policy alone this would take more than half a minute.
        EXPECT_TRUE(eventually([&] { return store->attempts >= 16; }));
        store->is_locked = false;
    });
    EXPECT_NO_THROW((void)acquire_with_retries(
        locks, "k", {.timeout = 10min, .retry = {.max_retries = 30, .retry_delay = 1ms}}));
}

TEST(lock, reports_at_how_many_attempts_the_key_was_locked) {
    const auto store = std::make_shared<silent_engine>(false);
    const any_backend locks(store);
    const auto failure = expect_error(error_code::acquisition_timeout, [&] {
        lock(locks, "k", [] {}, {.retry = {.max_retries = 2, .retry_delay = 1ms}});
    });
    EXPECT_EQ(store->attempts, 3);
    EXPECT_NE(std::string(failure->what()).find("held by others at 3 of 3 attempts"),
              std::string::npos)
        << failure->what();
}

TEST(lock, a_store_that_answers_too_late_counts_as_a_timeout) {
    const any_backend locks(
        std::make_shared<scripted_engine>([](const request&, const call_limits& limits) -> outcome {
            std::this_thread::sleep_until(limits.deadline);
            throw lock_error(error_code::network_timeout, "no answer");
        }));
    const auto failure = expect_error(error_code::acquisition_timeout,
                                      [&] { lock(locks, "k", [] {}, {.timeout = 40ms}); });
    EXPECT_TRUE(failure->cause());
    EXPECT_STREQ(failure->what(), "no answer");
}

TEST(lock, a_grant_that_arrives_after_the_timeout_is_released_and_not_used) {
    std::atomic<int> acquires{0};
    std::atomic<int> releases{0};
    const any_backend locks(
        std::make_shared<scripted_engine>([&](const request& req, const call_limits&) {
            if (std::holds_alternative<release_request>(req)) {
                ++releases;
                return outcome::done();
            }
            // The first answers are late.
            if (++acquires <= 2) std::this_thread::sleep_for(60ms);
            return outcome::granted(unix_time(1h), fence::from_counter(1));
        }));
    bool called = false;
    expect_error(error_code::acquisition_timeout, [&] {
        lock(locks, "k", [&] { called = true; }, {.ttl = 50ms, .retry = {.max_retries = 0}});
    });
    EXPECT_FALSE(called);
    EXPECT_TRUE(eventually([&] { return releases == 1; }));
    // With retries, the next attempt may succeed.
    lock(locks, "k", [&] { called = true; },
         {.ttl = 50ms, .retry = {.max_retries = 5, .retry_delay = 1ms}});
    EXPECT_TRUE(called);
    EXPECT_TRUE(eventually([&] { return releases == 3; }));
    EXPECT_EQ(acquires, 3);
}

TEST(lock, an_acquisition_that_is_answered_after_its_timeout_fails_in_every_api_form) {
    std::atomic<int> releases{0};
    const any_backend locks(
        std::make_shared<scripted_engine>([&](const request& req, const call_limits&) {
            if (std::holds_alternative<release_request>(req)) {
                ++releases;
                return outcome::done();
            }
            std::this_thread::sleep_for(60ms);
            return outcome::granted(unix_time(1h), fence::from_counter(1));
        }));
    expect_error(error_code::network_timeout, [&] { (void)locks.acquire("k", {.ttl = 50ms}); });
    expect_error(error_code::network_timeout, [&] {
        (void)async_acquire(locks, "k", {.ttl = 50ms}, boost::asio::use_future).get();
    });
    EXPECT_TRUE(eventually([&] { return releases == 2; }));
}

TEST(lock, does_not_call_the_function_if_the_timeout_ends_before_the_call) {
    /// A handler that is slow to copy delays `lock()` between the acquisition and the call.
    struct slow_to_copy {
        slow_to_copy() = default;
        slow_to_copy(const slow_to_copy&) { std::this_thread::sleep_for(30ms); }
        void operator()(const loss&) const {}
    };
    const memory::backend locks;
    bool called = false;
    lock_options options{.ttl = 20ms};
    options.on_lost = slow_to_copy();
    expect_error(error_code::acquisition_timeout, [&] {
        lock(
            locks, "k", [&] { called = true; }, options);
    });
    EXPECT_FALSE(called);
    EXPECT_FALSE(locks.is_locked("k"));
}

TEST(lock, system_failures_are_not_retried) {
    std::atomic<int> attempts{0};
    const any_backend locks(
        std::make_shared<scripted_engine>([&](const request&, const call_limits&) -> outcome {
            ++attempts;
            throw lock_error(error_code::auth_failed, "who are you?");
        }));
    expect_error(error_code::auth_failed, [&] { lock(locks, "k", [] {}); });
    EXPECT_EQ(attempts, 1);
}

TEST(lock, a_stop_request_wakes_a_waiting_caller_at_once) {
    const memory::backend locks;
    auto holder = locks.acquire("k");
    std::stop_source stop;
    std::promise<void> waiting;
    auto waiter = std::async(std::launch::async, [&] {
        waiting.set_value();
        lock(locks, "k", [] {},
             {.timeout = 1h, .retry = {.retry_delay = 1h}, .stop = stop.get_token()});
    });
    waiting.get_future().get();
    const auto asked = steady_clock::now();
    stop.request_stop();
    expect_error(error_code::aborted, [&] { waiter.get(); });
    EXPECT_LT(steady_clock::now() - asked, 5s);
}

TEST(lock, a_stop_request_before_it_begins_leaves_nothing_locked) {
    const memory::backend locks;
    std::stop_source stop;
    stop.request_stop();
    expect_error(error_code::aborted,
                 [&] { lock(locks, "k", [] { FAIL(); }, {.stop = stop.get_token()}); });
    EXPECT_FALSE(locks.is_locked("k"));
}

TEST(lock, the_callers_cancellation_does_not_stop_the_release) {
    const memory::backend locks;
    std::stop_source stop;
    lock(locks, "k", [&] { stop.request_stop(); }, {.stop = stop.get_token()});
    EXPECT_FALSE(locks.is_locked("k"));
}

TEST(lock, a_failing_release_is_reported_to_this_calls_handler_and_not_to_the_caller) {
    int backends = 0;
    std::string source;
    auto store =
        std::make_shared<scripted_engine>([](const request& req, const call_limits&) -> outcome {
            if (std::holds_alternative<release_request>(req)) {
                throw lock_error(error_code::service_unavailable, "gone");
            }
            return outcome::granted(unix_time(1h), fence::from_counter(1));
        });
    const any_backend locks(store,
                            {.on_release_error = [&](const auto&, const auto&) { ++backends; }});
    const int result =
        lock(locks, "k", [] { return 5; },
             {.on_release_error = [&](const lock_error&, const release_error_context& context) {
                 source = to_string(context.source);
             }});
    EXPECT_EQ(result, 5);
    EXPECT_EQ(source, "lock");
    EXPECT_EQ(backends, 0);

    lock(locks, "k", [] {});
    EXPECT_EQ(backends, 1);
}

TEST(lock, a_timeout_of_zero_means_one_attempt) {
    const memory::backend locks;
    EXPECT_EQ(lock(locks, "k", [] { return 1; }, {.timeout = 0ms}), 1);
    auto holder = locks.acquire("k");
    const auto failure = expect_error(error_code::acquisition_timeout,
                                      [&] { lock(locks, "k", [] {}, {.timeout = 0ms}); });
    EXPECT_FALSE(failure->cause());
}

TEST(lock, a_lease_can_be_acquired_with_the_same_retries) {
    const memory::backend locks;
    auto lease = acquire_with_retries(locks, "k", {.ttl = 60s});
    EXPECT_GT(lease.remaining(), 59s);
    expect_error(error_code::acquisition_timeout, [&] {
        (void)acquire_with_retries(locks, "k", {.retry = {.max_retries = 1, .retry_delay = 1ms}});
    });
}

TEST(lock, the_longest_waits_do_not_overflow) {
    const memory::backend locks;
    auto holder = locks.acquire("k");
    std::stop_source stop;
    std::promise<void> waiting;
    auto waiter = std::async(std::launch::async, [&] {
        waiting.set_value();
        lock(locks, "k", [] {},
             {.timeout = milliseconds::max(),
              .retry = {.retry_delay = milliseconds::max(), .jitter = jitter::none},
              .stop = stop.get_token()});
    });
    waiting.get_future().get();
    EXPECT_EQ(waiter.wait_for(30ms), std::future_status::timeout);
    stop.request_stop();
    expect_error(error_code::aborted, [&] { waiter.get(); });
}

TEST(lock, invalid_arguments_are_refused) {
    const memory::backend locks;
    for (const lock_options& negative :
         {lock_options{.timeout = -1ms}, lock_options{.retry = {.retry_delay = -1ms}},
          lock_options{.retry = {.max_delay = -1ms}}}) {
        expect_error(error_code::invalid_argument, [&] {
            lock(
                locks, "k", [] {}, negative);
        });
    }
    expect_error(error_code::invalid_argument, [&] { lock(locks, "", [] {}, {.timeout = 0ms}); });
    expect_error(error_code::invalid_argument, [&] { lock(locks, "", [] {}); });
    expect_error(error_code::invalid_argument, [&] { lock(locks, "k", [] {}, {.ttl = 0ms}); });
}

}  // namespace
}  // namespace syncguard::test
