#include "support/child_process.hpp"
#include "support/expect_error.hpp"
#include "support/scripted_engine.hpp"

#include <syncguard/memory.hpp>
#include <syncguard/telemetry.hpp>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;

/// Records events; safe to call from the telemetry thread.
class recorder {
  public:
    void operator()(const lock_event& event) {
        const std::lock_guard guard(mutex_);
        events_.push_back(event);
    }
    [[nodiscard]] std::vector<lock_event> events() const {
        const std::lock_guard guard(mutex_);
        return events_;
    }

  private:
    mutable std::mutex mutex_;
    std::vector<lock_event> events_;
};

TEST(telemetry, types_are_spelled_as_specified) {
    EXPECT_EQ(to_string(event_type::acquire), "acquire");
    EXPECT_EQ(to_string(event_type::release), "release");
    EXPECT_EQ(to_string(event_type::extend), "extend");
    EXPECT_EQ(to_string(event_type::is_locked), "isLocked");
    EXPECT_EQ(to_string(event_type::lookup), "lookup");
    EXPECT_EQ(to_string(failure_reason::not_found), "not-found");
}

TEST(telemetry, raw_identifiers_can_be_asked_for) {
    recorder seen;
    const auto locks =
        with_telemetry(memory::backend(), {.on_event = std::ref(seen), .include_raw = true});
    auto lease = locks.acquire("k");
    const std::string id = lease->lock_id().to_string();
    (void)lease->release();
    ASSERT_TRUE(locks.flush(10s));
    ASSERT_EQ(seen.events().size(), 2U);
    EXPECT_EQ(seen.events()[0].key, "k");
    EXPECT_EQ(seen.events()[0].lock_id, id);
    EXPECT_EQ(seen.events()[1].lock_id, id);
    EXPECT_FALSE(seen.events()[1].key);
}

TEST(telemetry, a_predicate_decides_for_each_event_and_sees_only_hashes) {
    recorder seen;
    const auto locks = with_telemetry(
        memory::backend(), {.on_event = std::ref(seen), .include_raw = [](const lock_event& event) {
                                EXPECT_FALSE(event.key);
                                EXPECT_FALSE(event.lock_id);
                                return event.type == event_type::is_locked;
                            }});
    (void)locks.is_locked("k");
    (void)locks.lookup(key_lookup{"k"});
    ASSERT_TRUE(locks.flush(10s));
    ASSERT_EQ(seen.events().size(), 2U);
    EXPECT_EQ(seen.events()[0].key, "k");
    EXPECT_FALSE(seen.events()[1].key);
}

TEST(telemetry, a_predicate_that_throws_counts_as_false) {
    recorder seen;
    const auto locks = with_telemetry(
        memory::backend(),
        {.on_event = std::ref(seen),
         .include_raw = [](const lock_event&) -> bool { throw std::runtime_error("undecided"); }});
    (void)locks.is_locked("k");
    ASSERT_TRUE(locks.flush(10s));
    ASSERT_EQ(seen.events().size(), 1U);
    EXPECT_FALSE(seen.events()[0].key);
}

TEST(telemetry, a_callback_that_throws_breaks_nothing) {
    std::atomic<int> calls{0};
    const auto locks = with_telemetry(memory::backend(), {.on_event = [&](const lock_event&) {
                                          ++calls;
                                          throw std::runtime_error("broken dashboard");
                                      }});
    for (int i = 0; i < 5; ++i)
        EXPECT_FALSE(locks.is_locked("k"));
    ASSERT_TRUE(locks.flush(10s));
    EXPECT_EQ(calls, 5);
}

TEST(telemetry, a_slow_callback_delays_no_caller_and_dropped_events_are_counted) {
    std::promise<void> unblock;
    auto blocked = unblock.get_future().share();
    const auto locks = with_telemetry(
        memory::backend(),
        {.on_event = [blocked](const lock_event&) { blocked.wait(); }, .queue_capacity = 10});
    constexpr int operations = 1000;
    for (int i = 0; i < operations; ++i)
        EXPECT_FALSE(locks.is_locked("k"));
    // One event may be in the callback and ten may be queued; the others were dropped.
    EXPECT_GE(locks.dropped_events(), static_cast<unsigned>(operations - 11));
    EXPECT_FALSE(locks.flush(1ms));
    unblock.set_value();
    EXPECT_TRUE(locks.flush(milliseconds::max()));
}

TEST(telemetry, a_system_failure_is_reported_without_a_reason_and_passes_through) {
    recorder seen;
    const auto locks = with_telemetry(
        any_backend(
            std::make_shared<scripted_engine>([](const request&, const call_limits&) -> outcome {
                throw lock_error(error_code::service_unavailable, "down");
            })),
        {.on_event = std::ref(seen)});
    expect_error(error_code::service_unavailable, [&] { (void)locks.acquire("k"); });
    ASSERT_TRUE(locks.flush(10s));
    ASSERT_EQ(seen.events().size(), 1U);
    EXPECT_FALSE(seen.events()[0].ok);
    EXPECT_FALSE(seen.events()[0].reason);
}

TEST(telemetry, queued_events_are_delivered_before_the_destructor_returns) {
    recorder seen;
    {
        const auto locks = with_telemetry(memory::backend(), {.on_event = std::ref(seen)});
        for (int i = 0; i < 100; ++i)
            (void)locks.is_locked("k");
    }
    EXPECT_EQ(seen.events().size(), 100U);
}

TEST(telemetry, the_destructor_does_not_wait_for_a_callback_that_waits_for_its_thread) {
    struct shared {
        std::promise<void> in_callback;
        std::promise<void> end_returned;
        std::shared_future<void> after_end = end_returned.get_future().share();
        std::atomic<int> events{0};
    };
    auto state = std::make_shared<shared>();
    auto locks = std::make_unique<observed_backend<memory::capabilities>>(
        with_telemetry(memory::backend(), {.on_event = [state](const lock_event&) {
                           if (state->events++ == 0) state->in_callback.set_value();
                           // The bound ends the test if the destructor waits for this callback.
                           (void)state->after_end.wait_for(3s);
                       }}));
    for (int i = 0; i < 10; ++i)
        (void)locks->is_locked("k");
    state->in_callback.get_future().get();
    const auto began = std::chrono::steady_clock::now();
    locks.reset();
    EXPECT_LT(std::chrono::steady_clock::now() - began, 10s);
    EXPECT_EQ(state->events, 1);
    state->end_returned.set_value();
}

TEST(telemetry, events_dropped_by_the_destructor_are_reported_as_a_warning) {
    std::promise<void> unblock;
    std::promise<std::string> warning;
    {
        const auto locks =
            with_telemetry(memory::backend({}, {.on_warning =
                                                    [&](std::string_view message) {
                                                        warning.set_value(std::string(message));
                                                    }}),
                           {.on_event = [blocked = unblock.get_future().share()](
                                            const lock_event&) { blocked.wait(); }});
        for (int i = 0; i < 10; ++i)
            (void)locks.is_locked("k");
    }
    const auto message = warning.get_future().get();
    // One event is in the callback, if the callback began before the destructor.
    EXPECT_TRUE(message.starts_with("9 ") || message.starts_with("10 ")) << message;
    unblock.set_value();
}

TEST(telemetry, hashes_of_lock_ids_can_be_left_out) {
    for (const bool included : {true, false}) {
        recorder seen;
        const auto locks = with_telemetry(
            memory::backend(), {.on_event = std::ref(seen), .include_lock_id_hash = included});
        (void)locks.acquire("k")->release();
        ASSERT_TRUE(locks.flush(10s));
        ASSERT_EQ(seen.events().size(), 2U);
        for (const auto& event : seen.events())
            EXPECT_EQ(event.lock_id_hash.has_value(), included);
        EXPECT_TRUE(seen.events()[0].key_hash);
    }
}

TEST(telemetry, a_flush_without_time_returns_false_at_once) {
    const auto locks = with_telemetry(memory::backend(), {.on_event = [](const lock_event&) {}});
    EXPECT_TRUE(locks.flush(milliseconds::min()));
}

TEST(telemetry, a_callback_is_required) {
    expect_error(error_code::invalid_argument, [] { (void)with_telemetry(memory::backend(), {}); });
    expect_error(error_code::invalid_argument, [] {
        (void)with_telemetry(memory::backend(),
                             {.on_event = [](const lock_event&) {}, .queue_capacity = 0});
    });
}

TEST(telemetry, a_forked_child_continues_and_ends_normally) {
    recorder seen;
    auto locks = std::make_unique<observed_backend<memory::capabilities>>(
        with_telemetry(memory::backend(), {.on_event = std::ref(seen)}));
    (void)locks->is_locked("k");
    ASSERT_TRUE(locks->flush(10s));
    child_process child([&] {
        if (locks->is_locked("k")) return 1;
        if (locks->dropped_events() != 1) return 2;
        locks.reset();
        return 0;
    });
    EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace syncguard::test
