/// Leader/Followers: callers run the loop one after another; without callers a fallback thread
/// does.
#include "net/io_loop.hpp"

#include "support/cancelled_thread.hpp"
#include "support/eventually.hpp"
#include "support/owned_fd.hpp"
#include "util/wakeup.hpp"

#include <boost/asio/post.hpp>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

struct test_task : net::task {
    explicit test_task(time_point deadline = time_point::max()) : task(deadline) {}

    std::atomic<int> times_finished{0};
    std::atomic<std::thread::id> finished_by;
};

std::ptrdiff_t threads_of_this_process() {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
}

/// A handler whose only work is test tasks, which finish when the test allows it.
class test_handler : public net::io_loop::handler {
  public:
    // Called by any thread.

    std::shared_ptr<test_task> execute(
        std::shared_ptr<test_task> op = std::make_shared<test_task>()) {
        loop_.execute(op);
        return op;
    }
    void submit(const std::shared_ptr<test_task>& op) { loop_.submit(op); }
    std::shared_ptr<test_task> submit() {
        auto op = std::make_shared<test_task>();
        loop_.submit(op);
        return op;
    }
    void notify() { loop_.notify(); }
    void reserve_for_own_thread() { loop_.reserve_for_own_thread(); }
    void unreserve() { loop_.unreserve(); }
    /// The next run finishes `op`. Notifies no thread.
    void allow(const std::shared_ptr<test_task>& op) {
        const std::lock_guard guard(mutex_);
        allowed_.insert(op);
    }
    void let_finish(const std::shared_ptr<test_task>& op) {
        allow(op);
        notify();
    }
    void let_finish_all_once_open(std::size_t count) {
        all_allowed_from_ = count;
        notify();
    }
    /// Called in the next run, once.
    void on_next_run(std::function<void()> action) {
        const std::lock_guard guard(mutex_);
        next_action_ = std::move(action);
    }
    [[nodiscard]] bool run_if_leader(const std::function<bool()>& done,
                                     net::io_loop::handler::time_point until) {
        return loop_.run_if_leader(done, until);
    }
    void end() { loop_.shutdown(); }
    /// Posts an event, as the network does.
    void post_event(std::function<void()> action) {
        boost::asio::post(loop_.context(), std::move(action));
    }
    /// Runs pending events of the loop.
    std::size_t run_pending_events() { return loop_.context().poll(); }

    [[nodiscard]] long runs() const { return runs_; }
    [[nodiscard]] std::thread::id last_runner() const { return last_runner_; }
    [[nodiscard]] std::size_t open_count() const { return open_count_; }
    [[nodiscard]] std::size_t largest_batch() const { return largest_batch_; }
    [[nodiscard]] bool ever_run_by_two() const { return run_by_two_; }

    // Called by the leader.

    step_result run_once() override {
        const bool nested = last_runner_ == std::this_thread::get_id();
        if (running_++ != 0 && !nested) run_by_two_ = true;
        last_runner_ = std::this_thread::get_id();
        ++runs_;
        const auto leave = [](std::atomic<int>* count) { --*count; };
        const std::unique_ptr<std::atomic<int>, decltype(leave)> leaves(&running_, leave);

        std::vector<std::shared_ptr<net::task>> taken;
        loop_.drain_submitted(taken);
        for (const auto& each : taken)
            open_.push_back(std::static_pointer_cast<test_task>(each));
        open_count_ = open_.size();
        if (const auto now = take_next_action()) now();
        finish_allowed();
        return {.wake_at = wake_at_, .min_batch = min_batch_};
    }
    [[nodiscard]] bool has_outstanding_work() const override { return !open_.empty(); }

    receive_result try_receive() override {
        return try_receive_ ? try_receive_() : receive_result::needs_event_loop;
    }
    [[nodiscard]] int pollable_socket() const override { return socket_; }
    [[nodiscard]] bool peer_shares_cpu() const override { return socket_ >= 0; }

    void wake_at(time_point when) { wake_at_ = when; }
    void on_try_receive(std::function<receive_result()> try_receive) {
        try_receive_ = std::move(try_receive);
    }
    /// The socket belongs to a server on the same CPU.
    void poll_on(int socket) { socket_ = socket; }
    void set_min_batch(std::size_t tasks) { min_batch_ = tasks; }

  private:
    std::function<void()> take_next_action() {
        const std::lock_guard guard(mutex_);
        return std::exchange(next_action_, nullptr);
    }
    void finish_allowed() {
        if (open_.size() >= all_allowed_from_) all_allowed_from_ = 0;
        const bool all = all_allowed_from_ == 0;
        std::vector<std::shared_ptr<test_task>> batch;
        {
            const std::lock_guard guard(mutex_);
            const auto rest = std::stable_partition(
                open_.begin(), open_.end(),
                [&](const auto& each) { return !all && allowed_.count(each) == 0; });
            batch.assign(rest, open_.end());
            open_.erase(rest, open_.end());
        }
        open_count_ = open_.size();
        largest_batch_ = std::max<std::size_t>(largest_batch_, batch.size());
        for (const auto& each : batch) {
            ++each->times_finished;
            each->finished_by = std::this_thread::get_id();
        }
        loop_.finish(batch);
    }

    std::vector<std::shared_ptr<test_task>> open_;
    time_point wake_at_ = time_point::max();
    std::size_t min_batch_ = 1;
    std::function<receive_result()> try_receive_;
    int socket_ = -1;

    std::mutex mutex_;
    std::set<std::shared_ptr<test_task>> allowed_;
    std::function<void()> next_action_;
    std::atomic<std::size_t> all_allowed_from_{~std::size_t{0}};

    std::atomic<long> runs_{0};
    std::atomic<int> running_{0};
    std::atomic<bool> run_by_two_{false};
    std::atomic<std::thread::id> last_runner_;
    std::atomic<std::size_t> open_count_{0};
    std::atomic<std::size_t> largest_batch_{0};
    net::io_loop loop_{*this};
};

class io_loop_test : public testing::Test {
  protected:
    // A sanitizer may start its own thread together with the first thread of a process.
    io_loop_test() {
        std::thread([] {}).join();
    }
    ~io_loop_test() override {
        if (runner_) runner_->end();
    }

    /// A thread that executes a test task.
    struct calling_thread {
        std::shared_ptr<test_task> op = std::make_shared<test_task>();
        std::promise<std::thread::id> begun;
        std::future<void> returned;
        std::thread::id thread;
    };
    /// Returns when the test task is open.
    std::unique_ptr<calling_thread> call() {
        const auto open_before = runner_->open_count();
        auto caller = std::make_unique<calling_thread>();
        caller->returned = std::async(std::launch::async, [this, each = caller.get()] {
            each->begun.set_value(std::this_thread::get_id());
            runner_->execute(each->op);
        });
        caller->thread = caller->begun.get_future().get();
        EXPECT_TRUE(eventually([&] { return runner_->open_count() > open_before; }));
        return caller;
    }

    std::shared_ptr<test_handler> runner_ = std::make_shared<test_handler>();
};

TEST_F(io_loop_test, a_lone_caller_leads_and_no_thread_is_started) {
    const auto threads = threads_of_this_process();
    for (int i = 0; i < 100; ++i) {
        const auto op = std::make_shared<test_task>();
        runner_->allow(op);
        runner_->execute(op);
        EXPECT_EQ(op->times_finished, 1);
        EXPECT_EQ(op->finished_by, std::this_thread::get_id());
    }
    EXPECT_LE(threads_of_this_process(), threads);
}

TEST_F(io_loop_test, a_follower_takes_over_when_the_leader_leaves) {
    const auto first = call();
    const auto second = call();

    runner_->let_finish(first->op);
    first->returned.get();
    EXPECT_EQ(first->op->finished_by, first->thread);
    EXPECT_EQ(second->op->times_finished, 0);

    runner_->let_finish(second->op);
    second->returned.get();
    EXPECT_EQ(second->op->finished_by, second->thread);
}

TEST_F(io_loop_test, followers_are_woken_by_the_leader) {
    const auto first = call();
    const auto second = call();
    const auto third = call();
    runner_->let_finish(second->op);
    second->returned.get();
    runner_->let_finish(third->op);
    third->returned.get();
    EXPECT_EQ(second->op->finished_by, first->thread);
    EXPECT_EQ(third->op->finished_by, first->thread);
    runner_->let_finish(first->op);
    first->returned.get();
}

TEST_F(io_loop_test, a_new_caller_runs_once_for_a_polling_leader) {
    const auto leader = call();
    int own_runs = 0;
    EXPECT_TRUE(eventually([&] {
        // Back to back: after each run the leader polls for a while.
        for (int i = 0; i < 100; ++i) {
            const auto op = std::make_shared<test_task>();
            runner_->allow(op);
            runner_->execute(op);
            EXPECT_EQ(op->times_finished, 1);
            if (op->finished_by.load() == std::this_thread::get_id()) ++own_runs;
        }
        return own_runs > 0;
    }));
    runner_->let_finish(leader->op);
    leader->returned.get();
    EXPECT_FALSE(runner_->ever_run_by_two());
}

TEST_F(io_loop_test, a_leader_returns_even_if_another_caller_finished_its_operation) {
    for (int round = 0; round < 300; ++round) {
        const auto leader = call();
        const auto op = std::make_shared<test_task>();
        runner_->allow(op);
        runner_->allow(leader->op);
        runner_->execute(op);
        leader->returned.get();
        EXPECT_EQ(leader->op->times_finished, 1);
    }
    EXPECT_FALSE(runner_->ever_run_by_two());
}

TEST_F(io_loop_test, the_handler_runs_also_at_the_time_that_a_new_callers_run_returned) {
    const auto leader = call();
    for (int round = 0; round < 50; ++round) {
        // These make the leader poll when `op` is submitted.
        for (int i = 0; i < 3; ++i) {
            const auto before = std::make_shared<test_task>();
            runner_->allow(before);
            runner_->execute(before);
        }
        const auto due = steady_clock::now() + 2ms;
        const auto op = std::make_shared<test_task>(due);
        runner_->on_next_run([&] {
            runner_->wake_at(due);
            runner_->on_next_run([&] {
                runner_->wake_at(net::io_loop::handler::time_point::max());
                runner_->allow(op);
            });
        });
        auto returned = std::async(std::launch::async, [&] { runner_->execute(op); });
        const bool in_time = returned.wait_for(10s) == std::future_status::ready;
        EXPECT_TRUE(in_time) << "round " << round;
        if (!in_time) runner_->let_finish(op);
        returned.get();
        if (!in_time) break;
    }
    runner_->let_finish(leader->op);
    leader->returned.get();
}

TEST_F(io_loop_test, a_new_caller_that_runs_before_the_fallback_thread_may_wait) {
    for (int round = 0; round < 300; ++round) {
        const auto inner = std::make_shared<test_task>();
        const auto outer = std::make_shared<test_task>();
        runner_->allow(inner);
        runner_->allow(outer);
        runner_->on_next_run([&] {
            // Gives the fallback thread time to run in between.
            for (int i = 0; i < 300; ++i)
                std::this_thread::yield();
            runner_->execute(inner);
        });
        const auto started = runner_->submit();
        runner_->execute(outer);
        EXPECT_EQ(inner->times_finished, 1);
        runner_->let_finish(started);
        EXPECT_TRUE(eventually([&] { return started->times_finished == 1; }));
    }
    EXPECT_FALSE(runner_->ever_run_by_two());
}

TEST_F(io_loop_test, an_exception_in_a_new_callers_run_is_left_to_the_leader) {
    for (int round = 0; round < 100; ++round) {
        const auto leader = call();
        const auto op = std::make_shared<test_task>();
        runner_->on_next_run([] { throw std::bad_alloc(); });
        runner_->allow(op);
        runner_->execute(op);
        EXPECT_EQ(op->times_finished, 1);
        runner_->let_finish(leader->op);
        leader->returned.get();
    }
    EXPECT_FALSE(runner_->ever_run_by_two());
}

TEST_F(io_loop_test, a_new_caller_leads_if_no_follower_has_taken_over_yet) {
    for (int round = 0; round < 200; ++round) {
        const auto first = call();
        const auto second = call();
        runner_->let_finish(first->op);
        first->returned.get();
        const auto third = std::make_shared<test_task>();
        runner_->allow(third);
        runner_->execute(third);
        EXPECT_EQ(third->times_finished, 1);
        runner_->let_finish(second->op);
        second->returned.get();
    }
    EXPECT_FALSE(runner_->ever_run_by_two());
}

TEST_F(io_loop_test, submitted_operations_run_on_one_fallback_thread) {
    const auto threads = threads_of_this_process();
    std::set<std::thread::id> leaders;
    for (int i = 0; i < 10; ++i) {
        const auto op = runner_->submit();
        runner_->let_finish(op);
        EXPECT_TRUE(eventually([&] { return op->times_finished == 1; }));
        EXPECT_TRUE(eventually([&] { return op->finished_by.load() != std::thread::id(); }));
        leaders.insert(op->finished_by);
    }
    EXPECT_EQ(leaders.size(), 1U);
    EXPECT_EQ(leaders.count(std::this_thread::get_id()), 0U);
    EXPECT_LE(threads_of_this_process(), threads + 1);
}

TEST_F(io_loop_test, work_of_a_leaving_leader_continues_without_callers) {
    const auto caller = call();
    const auto started = runner_->submit();
    EXPECT_TRUE(eventually([&] { return runner_->open_count() == 2; }));
    EXPECT_EQ(runner_->last_runner(), caller->thread);
    runner_->let_finish(caller->op);
    caller->returned.get();
    runner_->let_finish(started);
    EXPECT_TRUE(eventually([&] { return started->finished_by.load() != std::thread::id(); }));
    EXPECT_NE(started->finished_by, caller->thread);
}

TEST_F(io_loop_test, a_run_may_itself_execute_an_operation) {
    const auto inner = std::make_shared<test_task>();
    const auto outer = std::make_shared<test_task>();
    runner_->allow(inner);
    runner_->on_next_run([&] {
        EXPECT_EQ(outer->times_finished, 0);
        runner_->execute(inner);
        EXPECT_EQ(inner->times_finished, 1);
    });
    runner_->allow(outer);
    runner_->execute(outer);
    EXPECT_EQ(inner->finished_by, std::this_thread::get_id());
    EXPECT_EQ(outer->times_finished, 1);
}

TEST_F(io_loop_test, a_run_of_the_fallback_thread_may_itself_execute_an_operation) {
    const auto inner = std::make_shared<test_task>();
    runner_->allow(inner);
    runner_->on_next_run([&] { runner_->execute(inner); });
    const auto outer = runner_->submit();
    runner_->let_finish(outer);
    EXPECT_TRUE(eventually([&] { return outer->times_finished == 1; }));
    EXPECT_EQ(inner->times_finished, 1);
}

TEST_F(io_loop_test, the_leader_gets_the_exception_of_a_run_and_followers_continue) {
    const auto first = call();
    const auto second = call();
    runner_->on_next_run([] { throw std::runtime_error("once"); });
    runner_->notify();
    EXPECT_THROW(first->returned.get(), std::runtime_error);
    runner_->let_finish(second->op);
    second->returned.get();
    EXPECT_EQ(second->op->finished_by, second->thread);

    EXPECT_EQ(first->op->times_finished, 0);
    runner_->let_finish(first->op);
    EXPECT_TRUE(eventually([&] { return first->op->times_finished == 1; }));
}

TEST_F(io_loop_test, the_fallback_thread_survives_the_exception_of_a_run) {
    runner_->on_next_run([] { throw std::runtime_error("once"); });
    const auto op = runner_->submit();
    runner_->let_finish(op);
    EXPECT_TRUE(eventually([&] { return op->times_finished == 1; }));
}

TEST_F(io_loop_test, notify_wakes_a_sleeping_leader) {
    const auto caller = call();
    for (int i = 0; i < 100; ++i) {
        const auto before = runner_->runs();
        runner_->notify();
        EXPECT_TRUE(eventually([&] { return runner_->runs() > before; }));
    }
    runner_->let_finish(caller->op);
    caller->returned.get();
}

TEST_F(io_loop_test, notify_wakes_no_thread_if_there_is_nothing_to_do) {
    const auto threads = threads_of_this_process();
    runner_->notify();
    EXPECT_LE(threads_of_this_process(), threads);
    EXPECT_EQ(runner_->runs(), 0);
}

TEST_F(io_loop_test, the_handler_runs_at_the_time_that_its_last_run_returned) {
    const auto due = steady_clock::now() + 30ms;
    const auto op = std::make_shared<test_task>();
    runner_->wake_at(due);
    runner_->on_next_run([&] {
        runner_->on_next_run([&] {
            EXPECT_GE(steady_clock::now(), due);
            runner_->allow(op);
        });
    });
    runner_->execute(op);
    EXPECT_EQ(runner_->runs(), 2);
}

TEST_F(io_loop_test, events_are_handled_even_if_the_next_run_is_always_due) {
    const auto background_task = runner_->submit();
    EXPECT_TRUE(eventually([&] { return runner_->open_count() == 1; }));
    const auto caller = call();
    runner_->on_next_run([&] { runner_->wake_at(steady_clock::now()); });
    runner_->notify();
    EXPECT_TRUE(
        eventually([&, before = runner_->runs()] { return runner_->runs() > before + 100; }));
    const auto received = std::make_shared<std::atomic<bool>>(false);
    runner_->post_event([received] { *received = true; });
    EXPECT_TRUE(eventually([&] { return received->load(); }));
    runner_->let_finish(background_task);
    runner_->let_finish(caller->op);
    caller->returned.get();
}

TEST_F(io_loop_test, only_the_leader_can_continue_to_lead) {
    EXPECT_FALSE(runner_->run_if_leader([] { return true; }, steady_clock::now() + 1h));
    const auto caller = call();
    EXPECT_FALSE(runner_->run_if_leader([] { return true; }, steady_clock::now() + 1h));

    const auto other = std::make_shared<test_task>();
    std::promise<bool> led;
    std::promise<bool> led_in_vain;
    runner_->on_next_run([&] {
        const auto other_is_done = [&] { return other->times_finished == 1; };
        led_in_vain.set_value(runner_->run_if_leader(other_is_done, steady_clock::now() + 10ms) &&
                              !other_is_done());
        runner_->allow(other);
        led.set_value(runner_->run_if_leader(other_is_done, steady_clock::now() + 1h) &&
                      other_is_done());
    });
    const auto waiting = std::async(std::launch::async, [&] { runner_->execute(other); });
    EXPECT_TRUE(led_in_vain.get_future().get());
    EXPECT_TRUE(led.get_future().get());
    EXPECT_NE(other->finished_by.load(), std::this_thread::get_id());
    runner_->let_finish(caller->op);
    caller->returned.get();
}

TEST_F(io_loop_test, shutdown_may_be_called_on_the_fallback_thread) {
    const std::weak_ptr<test_handler> observed = runner_;
    const auto threads = threads_of_this_process();
    runner_->on_next_run([runner = runner_.get()] { runner->end(); });
    const auto left_undone = runner_->submit();
    runner_.reset();
    EXPECT_TRUE(eventually([&] { return observed.expired(); }));
    EXPECT_TRUE(eventually([&] { return threads_of_this_process() <= threads; }));
    EXPECT_EQ(left_undone->times_finished, 0);
}

TEST_F(io_loop_test, shutdown_does_not_wait_for_submitted_operations) {
    const auto left_undone = runner_->submit();
    EXPECT_TRUE(eventually([&] { return runner_->open_count() == 1; }));
    const std::weak_ptr<test_handler> observed = runner_;
    runner_->end();
    runner_.reset();
    EXPECT_TRUE(observed.expired());
    EXPECT_EQ(left_undone->times_finished, 0);
}

TEST_F(io_loop_test, operations_build_up_to_a_batch_or_until_one_is_due) {
    runner_->set_min_batch(3);
    std::vector<std::shared_ptr<test_task>> tasks{runner_->submit()};
    ASSERT_TRUE(eventually([&] { return runner_->open_count() == 1; }));
    const auto runs = runner_->runs();
    tasks.push_back(runner_->submit());
    tasks.push_back(runner_->submit());
    // No run is due yet: two operations are submitted, the next makes three.
    EXPECT_LE(runner_->runs(), runs + 1);
    tasks.push_back(runner_->submit());
    EXPECT_TRUE(eventually([&] { return runner_->open_count() == 4; }));

    const auto urgent = std::make_shared<test_task>(std::chrono::steady_clock::now());
    runner_->submit(urgent);
    EXPECT_TRUE(eventually([&] { return runner_->open_count() == 5; }));
    runner_->let_finish_all_once_open(5);
    EXPECT_TRUE(eventually([&] { return urgent->times_finished == 1; }));
}

TEST_F(io_loop_test, an_operation_that_is_submitted_during_a_run_is_not_missed) {
    using clock = std::chrono::steady_clock;
    runner_->set_min_batch(100);
    (void)runner_->submit();
    ASSERT_TRUE(eventually([&] { return runner_->open_count() == 1; }));
    const auto urgent = std::make_shared<test_task>(clock::now() + std::chrono::hours(1));
    // The leader sleeps for a moment. The operation submitted during its next run is not due by
    // then, so it does not interrupt the leader, whose run then returns no wake-up time.
    runner_->on_next_run([&] {
        runner_->wake_at(clock::now() + std::chrono::milliseconds(5));
        runner_->on_next_run([&] {
            runner_->wake_at(clock::time_point::max());
            runner_->submit(urgent);
        });
    });
    runner_->notify();
    EXPECT_TRUE(eventually([&] { return runner_->open_count() == 2; }));
    runner_->let_finish_all_once_open(2);
    EXPECT_TRUE(eventually([&] { return urgent->times_finished == 1; }));
}

TEST_F(io_loop_test, notifying_a_polling_leader_leaves_no_events_behind) {
    constexpr int notifications = 1000;
    const auto op = std::make_shared<test_task>();
    std::atomic<int> polls{0};
    runner_->on_try_receive([&] {
        // The first call comes before the first run and is not a poll.
        if (polls++ > 0) runner_->notify();
        if (polls >= notifications) runner_->let_finish(op);
        return net::io_loop::handler::receive_result::none;
    });
    // A leader that is notified often polls, but may still fall asleep.
    std::jthread caller([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
            runner_->notify();
            std::this_thread::yield();
        }
    });
    runner_->execute(op);
    caller.request_stop();
    caller.join();
    EXPECT_GE(polls, notifications);
    EXPECT_LE(runner_->run_pending_events(), 2U);
}

/// An event loop with a server on the same CPU, whose answers arrive on one end of a socket pair.
class io_loop_beside_its_server : public io_loop_test {
  protected:
    io_loop_beside_its_server() {
        std::array<int, 2> ends{};
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
            throw std::runtime_error("no pair of sockets");
        }
        here_ = owned_fd(ends[0]);
        there_ = owned_fd(ends[1]);
        runner_->poll_on(here_.get());
        runner_->on_try_receive([this] {
            ++polls_;
            char answer = 0;
            if (::recv(here_.get(), &answer, 1, MSG_DONTWAIT) != 1) {
                return net::io_loop::handler::receive_result::none;
            }
            runner_->allow(op_);
            return net::io_loop::handler::receive_result::received;
        });
    }

    std::shared_ptr<test_task> op_ = std::make_shared<test_task>();
    int polls_ = 0;
    owned_fd here_;
    owned_fd there_;
};

TEST_F(io_loop_beside_its_server, a_lone_caller_sleeps_until_the_reply_comes) {
    runner_->on_next_run([&] { ASSERT_EQ(::send(there_.get(), "x", 1, MSG_NOSIGNAL), 1); });
    runner_->execute(op_);
    // One poll before the first run, one when the answer has arrived.
    EXPECT_EQ(polls_, 2);
}

TEST_F(io_loop_beside_its_server, a_silent_server_does_not_delay_notifications) {
    constexpr int rounds = 100;
    const auto begin = steady_clock::now();
    for (int i = 0; i < rounds; ++i) {
        const auto caller = call();
        runner_->let_finish(caller->op);
        caller->returned.get();
    }
    // Without its notification each caller would have slept for 50 ms, or for ever.
    EXPECT_LT(steady_clock::now() - begin, rounds * 25ms);
}

TEST_F(io_loop_test, is_led_by_the_fallback_thread_while_that_is_reserved) {
    runner_->reserve_for_own_thread();
    std::set<std::thread::id> leaders;
    for (int i = 0; i < 100; ++i) {
        const auto op = std::make_shared<test_task>();
        runner_->allow(op);
        runner_->execute(op);
        EXPECT_EQ(op->times_finished, 1);
        leaders.insert(op->finished_by);
    }
    EXPECT_EQ(leaders.size(), 1U);
    EXPECT_EQ(leaders.count(std::this_thread::get_id()), 0U);
    runner_->unreserve();
}

TEST_F(io_loop_test, a_leading_caller_hands_over_to_the_reserved_thread_and_keeps_waiting) {
    const auto first = call();
    const auto second = call();
    runner_->reserve_for_own_thread();
    EXPECT_TRUE(eventually([&] {
        runner_->notify();
        const auto runner = runner_->last_runner();
        return runner != first->thread && runner != second->thread;
    }));
    for (const auto* each : {first.get(), second.get()})
        runner_->let_finish(each->op);
    for (auto* each : {first.get(), second.get()}) {
        each->returned.get();
        EXPECT_EQ(each->op->times_finished, 1);
        EXPECT_NE(each->op->finished_by, first->thread);
        EXPECT_NE(each->op->finished_by, second->thread);
    }
    runner_->unreserve();
}

TEST_F(io_loop_test, callers_lead_again_after_the_last_reservation) {
    runner_->reserve_for_own_thread();
    runner_->reserve_for_own_thread();
    runner_->unreserve();
    const auto op = std::make_shared<test_task>();
    runner_->allow(op);
    runner_->execute(op);
    EXPECT_NE(op->finished_by.load(), std::this_thread::get_id());
    runner_->unreserve();
    EXPECT_TRUE(eventually([&] {
        const auto next = std::make_shared<test_task>();
        runner_->allow(next);
        runner_->execute(next);
        return next->finished_by.load() == std::this_thread::get_id();
    }));
}

TEST_F(io_loop_test, a_run_of_the_reserved_thread_may_itself_execute_an_operation) {
    runner_->reserve_for_own_thread();
    const auto inner = std::make_shared<test_task>();
    const auto outer = std::make_shared<test_task>();
    runner_->allow(inner);
    runner_->allow(outer);
    runner_->on_next_run([&] { runner_->execute(inner); });
    runner_->execute(outer);
    EXPECT_EQ(inner->times_finished, 1);
    EXPECT_EQ(outer->times_finished, 1);
    runner_->unreserve();
}

TEST_F(io_loop_test, the_reserved_thread_survives_the_exception_of_a_run) {
    runner_->reserve_for_own_thread();
    runner_->on_next_run([] { throw std::runtime_error("once"); });
    const auto op = std::make_shared<test_task>();
    runner_->allow(op);
    runner_->execute(op);
    EXPECT_NE(op->finished_by.load(), std::this_thread::get_id());
    runner_->unreserve();
}

TEST_F(io_loop_test, reservations_come_and_go_among_busy_callers) {
    std::atomic<long> rounds{0};
    std::vector<std::jthread> busy;
    for (int i = 0; i < 8; ++i) {
        busy.emplace_back([&](const std::stop_token& stop) {
            while (!stop.stop_requested()) {
                const auto op = std::make_shared<test_task>();
                runner_->allow(op);
                runner_->execute(op);
                EXPECT_EQ(op->times_finished, 1);
                ++rounds;
            }
        });
    }
    for (int i = 0; i < 300; ++i) {
        runner_->reserve_for_own_thread();
        const auto before = rounds.load();
        EXPECT_TRUE(eventually([&] { return rounds > before; }));
        runner_->unreserve();
    }
    busy.clear();
    EXPECT_FALSE(runner_->ever_run_by_two());
}

TEST_F(io_loop_test, operations_of_many_threads_finish_once_each_and_in_batches) {
    constexpr std::size_t callers = 64;
    constexpr int rounds = 200;
    std::array<std::vector<std::shared_ptr<test_task>>, callers> tasks;
    {
        std::vector<std::jthread> threads;
        for (auto& own : tasks) {
            threads.emplace_back([&] {
                for (int round = 0; round < rounds; ++round) {
                    own.push_back(runner_->execute());
                    EXPECT_EQ(own.back()->times_finished, 1);
                    if (round % 4 == 0) own.push_back(runner_->submit());
                }
            });
        }
        // The first operations of all threads become one batch; later ones run as they arrive.
        runner_->let_finish_all_once_open(callers);
    }
    for (const auto& own : tasks) {
        for (const auto& each : own)
            EXPECT_TRUE(eventually([&] { return each->times_finished == 1; }));
    }
    EXPECT_GE(runner_->largest_batch(), callers);
    EXPECT_FALSE(runner_->ever_run_by_two());
}

TEST(wakeup, returns_to_a_thread_whose_cancellation_is_pending) {
    const wakeup loop;
    EXPECT_TRUE(returns_on_cancelled_thread([&] { loop.notify(); }));
}

}  // namespace
}  // namespace syncguard::test
