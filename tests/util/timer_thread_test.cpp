#include "util/timer_thread.hpp"

#include "support/eventually.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <vector>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;
using clock = timer_thread::clock;
using std::chrono::milliseconds;

TEST(timer_thread_test, tasks_run_in_the_order_of_their_due_times) {
    timer_thread timers;
    std::mutex mutex;
    std::vector<int> order;
    const auto now = clock::now();
    for (const int delay : {30, 10, 20, 0}) {
        timers.schedule(now + milliseconds(delay), [&, delay] {
            const std::lock_guard guard(mutex);
            order.push_back(delay);
        });
    }
    EXPECT_TRUE(eventually([&] {
        const std::lock_guard guard(mutex);
        return order.size() == 4;
    }));
    EXPECT_EQ(order, (std::vector<int>{0, 10, 20, 30}));
}

TEST(timer_thread_test, nothing_runs_before_its_time) {
    timer_thread timers;
    std::promise<clock::time_point> ran;
    const auto due = clock::now() + 30ms;
    timers.schedule(due, [&] { ran.set_value(clock::now()); });
    EXPECT_GE(ran.get_future().get(), due);
}

TEST(timer_thread_test, a_cancelled_task_never_runs_and_is_destroyed) {
    timer_thread timers;
    std::atomic<bool> ran{false};
    auto held = std::make_shared<int>(0);
    const auto ticket = timers.schedule(clock::now() + 20ms, [&ran, held] { ran = true; });
    timers.cancel(ticket);
    timers.cancel(ticket);
    EXPECT_EQ(held.use_count(), 1);
    std::promise<void> later;
    timers.schedule(clock::now() + 40ms, [&] { later.set_value(); });
    later.get_future().get();
    EXPECT_FALSE(ran);
}

TEST(timer_thread_test, destruction_does_not_wait_for_later_tasks) {
    std::atomic<bool> ran{false};
    {
        timer_thread timers;
        timers.schedule(clock::now() + 1h, [&] { ran = true; });
    }
    EXPECT_FALSE(ran);
}

TEST(timer_thread_test, a_task_may_destroy_its_own_timers) {
    std::promise<void> gone;
    auto timers = std::make_shared<timer_thread>();
    auto* address = timers.get();
    address->schedule(clock::now(), [&gone, timers = std::move(timers)]() mutable {
        timers.reset();
        gone.set_value();
    });
    gone.get_future().get();
}

}  // namespace
}  // namespace syncguard::test
