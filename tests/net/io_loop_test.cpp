/// Who drives whose I/O: the callers themselves, one after another, or a thread where nobody waits.
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

struct errand : net::task {
    explicit errand(time_point deadline = time_point::max()) : task(deadline) {}

    std::atomic<int> times_finished{0};
    std::atomic<std::thread::id> finished_by;
};

std::ptrdiff_t threads_of_this_process() {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
}

/// Whose I/O is nothing but errands, which are done when the test says so.
class errand_runner : public net::driven {
  public:
    // For any thread.

    std::shared_ptr<errand> perform(std::shared_ptr<errand> what = std::make_shared<errand>()) {
        driver_.perform(what);
        return what;
    }
    void start(const std::shared_ptr<errand>& what) { driver_.start(what); }
    std::shared_ptr<errand> start() {
        auto what = std::make_shared<errand>();
        driver_.start(what);
        return what;
    }
    void nudge() { driver_.nudge(); }
    void reserve_for_own_thread() { driver_.reserve_for_own_thread(); }
    void unreserve() { driver_.unreserve(); }
    /// Calls nobody: the next step finishes it.
    void allow(const std::shared_ptr<errand>& what) {
        const std::lock_guard guard(mutex_);
        allowed_.insert(what);
    }
    void let_finish(const std::shared_ptr<errand>& what) {
        allow(what);
        nudge();
    }
    void let_finish_all_once_open(std::size_t count) {
        all_allowed_from_ = count;
        nudge();
    }
    /// Runs in the next step, once.
    void in_next_step(std::function<void()> what) {
        const std::lock_guard guard(mutex_);
        in_next_step_ = std::move(what);
    }
    [[nodiscard]] bool drive_if_mine(const std::function<bool()>& done,
                                     net::driven::time_point until) {
        return driver_.drive_if_mine(done, until);
    }
    void end() { driver_.end(); }
    /// Something that comes from the network, as far as the driver can tell.
    void let_come(std::function<void()> what) {
        boost::asio::post(driver_.context(), std::move(what));
    }
    /// What the loop has not got round to.
    std::size_t run_what_the_loop_holds() { return driver_.context().poll(); }

    [[nodiscard]] long steps() const { return steps_; }
    [[nodiscard]] std::thread::id last_stepper() const { return last_stepper_; }
    [[nodiscard]] std::size_t errands_open() const { return errands_open_; }
    [[nodiscard]] std::size_t largest_batch() const { return largest_batch_; }
    [[nodiscard]] bool ever_stepped_by_two() const { return stepped_by_two_; }

    // For the thread that drives.

    wishes step() override {
        const bool nested = last_stepper_ == std::this_thread::get_id();
        if (stepping_++ != 0 && !nested) stepped_by_two_ = true;
        last_stepper_ = std::this_thread::get_id();
        ++steps_;
        const auto leave = [](std::atomic<int>* count) { --*count; };
        const std::unique_ptr<std::atomic<int>, decltype(leave)> leaves(&stepping_, leave);

        std::vector<std::shared_ptr<net::task>> taken;
        driver_.take_tasks(taken);
        for (const auto& each : taken)
            open_.push_back(std::static_pointer_cast<errand>(each));
        errands_open_ = open_.size();
        if (const auto now = take_what_is_for_this_step()) now();
        finish_allowed();
        return {.at = wake_at_, .tasks = tasks_wanted_};
    }
    [[nodiscard]] bool has_work() const override { return !open_.empty(); }

    sight look() override { return look_ ? look_() : sight::only_the_loop_can_tell; }
    [[nodiscard]] int socket_to_look_at() const override { return socket_; }
    [[nodiscard]] bool is_answered_from_this_cpu() const override { return socket_ >= 0; }

    void wake_at(time_point when) { wake_at_ = when; }
    void when_looked(std::function<sight()> look) { look_ = std::move(look); }
    /// Of a server on the same CPU.
    void look_at(int socket) { socket_ = socket; }
    void wake_for(std::size_t tasks) { tasks_wanted_ = tasks; }

  private:
    std::function<void()> take_what_is_for_this_step() {
        const std::lock_guard guard(mutex_);
        return std::exchange(in_next_step_, nullptr);
    }
    void finish_allowed() {
        if (open_.size() >= all_allowed_from_) all_allowed_from_ = 0;
        const bool all = all_allowed_from_ == 0;
        std::vector<std::shared_ptr<errand>> batch;
        {
            const std::lock_guard guard(mutex_);
            const auto rest = std::stable_partition(
                open_.begin(), open_.end(),
                [&](const auto& each) { return !all && allowed_.count(each) == 0; });
            batch.assign(rest, open_.end());
            open_.erase(rest, open_.end());
        }
        errands_open_ = open_.size();
        largest_batch_ = std::max<std::size_t>(largest_batch_, batch.size());
        for (const auto& each : batch) {
            ++each->times_finished;
            each->finished_by = std::this_thread::get_id();
        }
        driver_.finish(batch);
    }

    std::vector<std::shared_ptr<errand>> open_;
    time_point wake_at_ = time_point::max();
    std::size_t tasks_wanted_ = 1;
    std::function<sight()> look_;
    int socket_ = -1;

    std::mutex mutex_;
    std::set<std::shared_ptr<errand>> allowed_;
    std::function<void()> in_next_step_;
    std::atomic<std::size_t> all_allowed_from_{~std::size_t{0}};

    std::atomic<long> steps_{0};
    std::atomic<int> stepping_{0};
    std::atomic<bool> stepped_by_two_{false};
    std::atomic<std::thread::id> last_stepper_;
    std::atomic<std::size_t> errands_open_{0};
    std::atomic<std::size_t> largest_batch_{0};
    net::io_driver driver_{*this};
};

class io_driver_test : public testing::Test {
  protected:
    // With the first thread of a process, a sanitizer may start one of its own.
    io_driver_test() {
        std::thread([] {}).join();
    }
    ~io_driver_test() override {
        if (runner_) runner_->end();
    }

    /// One that performs an errand.
    struct calling_thread {
        std::shared_ptr<errand> what = std::make_shared<errand>();
        std::promise<std::thread::id> begun;
        std::future<void> returned;
        std::thread::id thread;
    };
    /// Returns when the errand is open.
    std::unique_ptr<calling_thread> call() {
        const auto open_before = runner_->errands_open();
        auto made = std::make_unique<calling_thread>();
        made->returned = std::async(std::launch::async, [this, each = made.get()] {
            each->begun.set_value(std::this_thread::get_id());
            runner_->perform(each->what);
        });
        made->thread = made->begun.get_future().get();
        EXPECT_TRUE(eventually([&] { return runner_->errands_open() > open_before; }));
        return made;
    }

    std::shared_ptr<errand_runner> runner_ = std::make_shared<errand_runner>();
};

TEST_F(io_driver_test, a_lone_caller_drives_itself_and_no_thread_is_started) {
    const auto threads = threads_of_this_process();
    for (int i = 0; i < 100; ++i) {
        const auto what = std::make_shared<errand>();
        runner_->allow(what);
        runner_->perform(what);
        EXPECT_EQ(what->times_finished, 1);
        EXPECT_EQ(what->finished_by, std::this_thread::get_id());
    }
    EXPECT_LE(threads_of_this_process(), threads);
}

TEST_F(io_driver_test, two_callers_share_a_driver_and_one_takes_over_when_the_other_leaves) {
    const auto first = call();
    const auto second = call();

    runner_->let_finish(first->what);
    first->returned.get();
    EXPECT_EQ(first->what->finished_by, first->thread);
    EXPECT_EQ(second->what->times_finished, 0);

    runner_->let_finish(second->what);
    second->returned.get();
    EXPECT_EQ(second->what->finished_by, second->thread);
}

TEST_F(io_driver_test, who_waits_is_woken_by_who_drives) {
    const auto first = call();
    const auto second = call();
    const auto third = call();
    runner_->let_finish(second->what);
    second->returned.get();
    runner_->let_finish(third->what);
    third->returned.get();
    EXPECT_EQ(second->what->finished_by, first->thread);
    EXPECT_EQ(third->what->finished_by, first->thread);
    runner_->let_finish(first->what);
    first->returned.get();
}

TEST_F(io_driver_test, a_newcomer_does_the_step_for_a_driver_that_looks_out) {
    const auto driver = call();
    int steps_of_its_own = 0;
    EXPECT_TRUE(eventually([&] {
        // One right after the other: each step keeps the driver looking out for a while.
        for (int i = 0; i < 100; ++i) {
            const auto what = std::make_shared<errand>();
            runner_->allow(what);
            runner_->perform(what);
            EXPECT_EQ(what->times_finished, 1);
            if (what->finished_by.load() == std::this_thread::get_id()) ++steps_of_its_own;
        }
        return steps_of_its_own > 0;
    }));
    runner_->let_finish(driver->what);
    driver->returned.get();
    EXPECT_FALSE(runner_->ever_stepped_by_two());
}

TEST_F(io_driver_test, a_driver_returns_whoever_finished_its_task) {
    for (int round = 0; round < 300; ++round) {
        const auto driver = call();
        const auto what = std::make_shared<errand>();
        runner_->allow(what);
        runner_->allow(driver->what);
        runner_->perform(what);
        driver->returned.get();
        EXPECT_EQ(driver->what->times_finished, 1);
    }
    EXPECT_FALSE(runner_->ever_stepped_by_two());
}

TEST_F(io_driver_test, a_step_comes_also_at_the_time_that_a_newcomers_step_asked_for) {
    const auto driver = call();
    for (int round = 0; round < 50; ++round) {
        // So that the driver looks out when the one comes that matters.
        for (int i = 0; i < 3; ++i) {
            const auto before = std::make_shared<errand>();
            runner_->allow(before);
            runner_->perform(before);
        }
        const auto due = steady_clock::now() + 2ms;
        const auto what = std::make_shared<errand>(due);
        runner_->in_next_step([&] {
            runner_->wake_at(due);
            runner_->in_next_step([&] {
                runner_->wake_at(net::driven::time_point::max());
                runner_->allow(what);
            });
        });
        auto returned = std::async(std::launch::async, [&] { runner_->perform(what); });
        const bool in_time = returned.wait_for(10s) == std::future_status::ready;
        EXPECT_TRUE(in_time) << "round " << round;
        if (!in_time) runner_->let_finish(what);
        returned.get();
        if (!in_time) break;
    }
    runner_->let_finish(driver->what);
    driver->returned.get();
}

TEST_F(io_driver_test, a_newcomer_who_steps_before_the_thread_does_may_wait_for_something) {
    for (int round = 0; round < 300; ++round) {
        const auto inner = std::make_shared<errand>();
        const auto outer = std::make_shared<errand>();
        runner_->allow(inner);
        runner_->allow(outer);
        runner_->in_next_step([&] {
            // The thread has the time to come in between.
            for (int i = 0; i < 300; ++i)
                std::this_thread::yield();
            runner_->perform(inner);
        });
        const auto started = runner_->start();
        runner_->perform(outer);
        EXPECT_EQ(inner->times_finished, 1);
        runner_->let_finish(started);
        EXPECT_TRUE(eventually([&] { return started->times_finished == 1; }));
    }
    EXPECT_FALSE(runner_->ever_stepped_by_two());
}

TEST_F(io_driver_test, what_goes_wrong_in_a_newcomers_step_is_the_drivers) {
    for (int round = 0; round < 100; ++round) {
        const auto driver = call();
        const auto what = std::make_shared<errand>();
        runner_->in_next_step([] { throw std::bad_alloc(); });
        runner_->allow(what);
        runner_->perform(what);
        EXPECT_EQ(what->times_finished, 1);
        runner_->let_finish(driver->what);
        driver->returned.get();
    }
    EXPECT_FALSE(runner_->ever_stepped_by_two());
}

TEST_F(io_driver_test, a_newcomer_drives_if_nobody_has_taken_over_yet) {
    for (int round = 0; round < 200; ++round) {
        const auto first = call();
        const auto second = call();
        runner_->let_finish(first->what);
        first->returned.get();
        const auto third = std::make_shared<errand>();
        runner_->allow(third);
        runner_->perform(third);
        EXPECT_EQ(third->times_finished, 1);
        runner_->let_finish(second->what);
        second->returned.get();
    }
    EXPECT_FALSE(runner_->ever_stepped_by_two());
}

TEST_F(io_driver_test, what_nobody_waits_for_is_driven_by_one_thread) {
    const auto threads = threads_of_this_process();
    std::set<std::thread::id> drivers;
    for (int i = 0; i < 10; ++i) {
        const auto what = runner_->start();
        runner_->let_finish(what);
        EXPECT_TRUE(eventually([&] { return what->times_finished == 1; }));
        EXPECT_TRUE(eventually([&] { return what->finished_by.load() != std::thread::id(); }));
        drivers.insert(what->finished_by);
    }
    EXPECT_EQ(drivers.size(), 1U);
    EXPECT_EQ(drivers.count(std::this_thread::get_id()), 0U);
    EXPECT_LE(threads_of_this_process(), threads + 1);
}

TEST_F(io_driver_test, what_a_leaving_caller_was_driving_for_others_goes_on_without_callers) {
    const auto caller = call();
    const auto started = runner_->start();
    EXPECT_TRUE(eventually([&] { return runner_->errands_open() == 2; }));
    EXPECT_EQ(runner_->last_stepper(), caller->thread);
    runner_->let_finish(caller->what);
    caller->returned.get();
    runner_->let_finish(started);
    EXPECT_TRUE(eventually([&] { return started->finished_by.load() != std::thread::id(); }));
    EXPECT_NE(started->finished_by, caller->thread);
}

TEST_F(io_driver_test, a_step_may_itself_wait_for_something) {
    const auto inner = std::make_shared<errand>();
    const auto outer = std::make_shared<errand>();
    runner_->allow(inner);
    runner_->in_next_step([&] {
        EXPECT_EQ(outer->times_finished, 0);
        runner_->perform(inner);
        EXPECT_EQ(inner->times_finished, 1);
    });
    runner_->allow(outer);
    runner_->perform(outer);
    EXPECT_EQ(inner->finished_by, std::this_thread::get_id());
    EXPECT_EQ(outer->times_finished, 1);
}

TEST_F(io_driver_test, a_step_of_the_thread_may_itself_wait_for_something) {
    const auto inner = std::make_shared<errand>();
    runner_->allow(inner);
    runner_->in_next_step([&] { runner_->perform(inner); });
    const auto outer = runner_->start();
    runner_->let_finish(outer);
    EXPECT_TRUE(eventually([&] { return outer->times_finished == 1; }));
    EXPECT_EQ(inner->times_finished, 1);
}

TEST_F(io_driver_test, who_drives_gets_the_exception_of_a_step_and_the_others_go_on) {
    const auto first = call();
    const auto second = call();
    runner_->in_next_step([] { throw std::runtime_error("once"); });
    runner_->nudge();
    EXPECT_THROW(first->returned.get(), std::runtime_error);
    runner_->let_finish(second->what);
    second->returned.get();
    EXPECT_EQ(second->what->finished_by, second->thread);

    EXPECT_EQ(first->what->times_finished, 0);
    runner_->let_finish(first->what);
    EXPECT_TRUE(eventually([&] { return first->what->times_finished == 1; }));
}

TEST_F(io_driver_test, the_thread_survives_the_exception_of_a_step) {
    runner_->in_next_step([] { throw std::runtime_error("once"); });
    const auto what = runner_->start();
    runner_->let_finish(what);
    EXPECT_TRUE(eventually([&] { return what->times_finished == 1; }));
}

TEST_F(io_driver_test, a_nudge_wakes_who_sleeps) {
    const auto caller = call();
    for (int i = 0; i < 100; ++i) {
        const auto before = runner_->steps();
        runner_->nudge();
        EXPECT_TRUE(eventually([&] { return runner_->steps() > before; }));
    }
    runner_->let_finish(caller->what);
    caller->returned.get();
}

TEST_F(io_driver_test, a_nudge_wakes_nobody_where_there_is_nothing_to_do) {
    const auto threads = threads_of_this_process();
    runner_->nudge();
    EXPECT_LE(threads_of_this_process(), threads);
    EXPECT_EQ(runner_->steps(), 0);
}

TEST_F(io_driver_test, a_step_comes_at_the_time_that_the_last_one_asked_for) {
    const auto due = steady_clock::now() + 30ms;
    const auto what = std::make_shared<errand>();
    runner_->wake_at(due);
    runner_->in_next_step([&] {
        runner_->in_next_step([&] {
            EXPECT_GE(steady_clock::now(), due);
            runner_->allow(what);
        });
    });
    runner_->perform(what);
    EXPECT_EQ(runner_->steps(), 2);
}

TEST_F(io_driver_test, what_comes_is_taken_in_though_the_next_step_is_always_due) {
    const auto errand_of_thread = runner_->start();
    EXPECT_TRUE(eventually([&] { return runner_->errands_open() == 1; }));
    const auto caller = call();
    runner_->in_next_step([&] { runner_->wake_at(steady_clock::now()); });
    runner_->nudge();
    EXPECT_TRUE(
        eventually([&, before = runner_->steps()] { return runner_->steps() > before + 100; }));
    const auto taken_in = std::make_shared<std::atomic<bool>>(false);
    runner_->let_come([taken_in] { *taken_in = true; });
    EXPECT_TRUE(eventually([&] { return taken_in->load(); }));
    runner_->let_finish(errand_of_thread);
    runner_->let_finish(caller->what);
    caller->returned.get();
}

TEST_F(io_driver_test, only_who_drives_can_drive_on) {
    EXPECT_FALSE(runner_->drive_if_mine([] { return true; }, steady_clock::now() + 1h));
    const auto caller = call();
    EXPECT_FALSE(runner_->drive_if_mine([] { return true; }, steady_clock::now() + 1h));

    const auto other = std::make_shared<errand>();
    std::promise<bool> drove;
    std::promise<bool> drove_in_vain;
    runner_->in_next_step([&] {
        const auto other_is_done = [&] { return other->times_finished == 1; };
        drove_in_vain.set_value(runner_->drive_if_mine(other_is_done, steady_clock::now() + 10ms) &&
                                !other_is_done());
        runner_->allow(other);
        drove.set_value(runner_->drive_if_mine(other_is_done, steady_clock::now() + 1h) &&
                        other_is_done());
    });
    const auto waiting = std::async(std::launch::async, [&] { runner_->perform(other); });
    EXPECT_TRUE(drove_in_vain.get_future().get());
    EXPECT_TRUE(drove.get_future().get());
    EXPECT_NE(other->finished_by.load(), std::this_thread::get_id());
    runner_->let_finish(caller->what);
    caller->returned.get();
}

TEST_F(io_driver_test, the_end_may_come_on_the_thread_itself) {
    const std::weak_ptr<errand_runner> observed = runner_;
    const auto threads = threads_of_this_process();
    runner_->in_next_step([runner = runner_.get()] { runner->end(); });
    const auto left_undone = runner_->start();
    runner_.reset();
    EXPECT_TRUE(eventually([&] { return observed.expired(); }));
    EXPECT_TRUE(eventually([&] { return threads_of_this_process() <= threads; }));
    EXPECT_EQ(left_undone->times_finished, 0);
}

TEST_F(io_driver_test, the_end_does_not_wait_for_what_nobody_waits_for) {
    const auto left_undone = runner_->start();
    EXPECT_TRUE(eventually([&] { return runner_->errands_open() == 1; }));
    const std::weak_ptr<errand_runner> observed = runner_;
    runner_->end();
    runner_.reset();
    EXPECT_TRUE(observed.expired());
    EXPECT_EQ(left_undone->times_finished, 0);
}

TEST_F(io_driver_test, tasks_may_gather_until_there_are_enough_or_one_is_due) {
    runner_->wake_for(3);
    std::vector<std::shared_ptr<errand>> errands{runner_->start()};
    ASSERT_TRUE(eventually([&] { return runner_->errands_open() == 1; }));
    const auto steps = runner_->steps();
    errands.push_back(runner_->start());
    errands.push_back(runner_->start());
    // Nothing has called for a step yet: the next one makes three.
    EXPECT_LE(runner_->steps(), steps + 1);
    errands.push_back(runner_->start());
    EXPECT_TRUE(eventually([&] { return runner_->errands_open() == 4; }));

    const auto urgent = std::make_shared<errand>(std::chrono::steady_clock::now());
    runner_->start(urgent);
    EXPECT_TRUE(eventually([&] { return runner_->errands_open() == 5; }));
    runner_->let_finish_all_once_open(5);
    EXPECT_TRUE(eventually([&] { return urgent->times_finished == 1; }));
}

TEST_F(io_driver_test, a_task_that_comes_during_a_step_is_not_overslept) {
    using clock = std::chrono::steady_clock;
    runner_->wake_for(100);
    (void)runner_->start();
    ASSERT_TRUE(eventually([&] { return runner_->errands_open() == 1; }));
    const auto urgent = std::make_shared<errand>(clock::now() + std::chrono::hours(1));
    // The driver sleeps for a moment; then comes the task, which does not call for attention by
    // that measure, and the wish to sleep for ever.
    runner_->in_next_step([&] {
        runner_->wake_at(clock::now() + std::chrono::milliseconds(5));
        runner_->in_next_step([&] {
            runner_->wake_at(clock::time_point::max());
            runner_->start(urgent);
        });
    });
    runner_->nudge();
    EXPECT_TRUE(eventually([&] { return runner_->errands_open() == 2; }));
    runner_->let_finish_all_once_open(2);
    EXPECT_TRUE(eventually([&] { return urgent->times_finished == 1; }));
}

TEST_F(io_driver_test, nudging_one_who_looks_out_leaves_nothing_in_the_loop) {
    constexpr int nudges = 1000;
    const auto what = std::make_shared<errand>();
    std::atomic<int> looks{0};
    runner_->when_looked([&] {
        // The first look is before the first step, and no look-out.
        if (looks++ > 0) runner_->nudge();
        if (looks >= nudges) runner_->let_finish(what);
        return net::driven::sight::nothing_came;
    });
    // Whoever is called fast looks out for the next call, and may fall asleep all the same.
    std::jthread caller([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
            runner_->nudge();
            std::this_thread::yield();
        }
    });
    runner_->perform(what);
    caller.request_stop();
    caller.join();
    EXPECT_GE(looks, nudges);
    EXPECT_LE(runner_->run_what_the_loop_holds(), 2U);
}

/// Beside a server on the same CPU, whose answers come over one end of a pair of sockets.
class beside_its_server : public io_driver_test {
  protected:
    beside_its_server() {
        std::array<int, 2> ends{};
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
            throw std::runtime_error("no pair of sockets");
        }
        here_ = owned_fd(ends[0]);
        there_ = owned_fd(ends[1]);
        runner_->look_at(here_.get());
        runner_->when_looked([this] {
            ++looks_;
            char answer = 0;
            if (::recv(here_.get(), &answer, 1, MSG_DONTWAIT) != 1) {
                return net::driven::sight::nothing_came;
            }
            runner_->allow(what_);
            return net::driven::sight::something_came;
        });
    }

    std::shared_ptr<errand> what_ = std::make_shared<errand>();
    int looks_ = 0;
    owned_fd here_;
    owned_fd there_;
};

TEST_F(beside_its_server, a_lone_caller_leaves_the_cpu_alone_until_the_answer_comes) {
    runner_->in_next_step([&] { ASSERT_EQ(::send(there_.get(), "x", 1, MSG_NOSIGNAL), 1); });
    runner_->perform(what_);
    // Before the first step, and when the answer was there.
    EXPECT_EQ(looks_, 2);
}

TEST_F(beside_its_server, a_silent_one_keeps_nobody_from_being_called) {
    constexpr int rounds = 100;
    const auto begin = steady_clock::now();
    for (int i = 0; i < rounds; ++i) {
        const auto caller = call();
        runner_->let_finish(caller->what);
        caller->returned.get();
    }
    // Each that was not called would have slept for 50 ms, or for ever.
    EXPECT_LT(steady_clock::now() - begin, rounds * 25ms);
}

TEST_F(io_driver_test, is_driven_by_its_own_thread_while_that_is_reserved) {
    runner_->reserve_for_own_thread();
    std::set<std::thread::id> drivers;
    for (int i = 0; i < 100; ++i) {
        const auto what = std::make_shared<errand>();
        runner_->allow(what);
        runner_->perform(what);
        EXPECT_EQ(what->times_finished, 1);
        drivers.insert(what->finished_by);
    }
    EXPECT_EQ(drivers.size(), 1U);
    EXPECT_EQ(drivers.count(std::this_thread::get_id()), 0U);
    runner_->unreserve();
}

TEST_F(io_driver_test, a_caller_that_drives_hands_over_to_the_reserved_thread_and_waits_on) {
    const auto first = call();
    const auto second = call();
    runner_->reserve_for_own_thread();
    EXPECT_TRUE(eventually([&] {
        runner_->nudge();
        const auto stepper = runner_->last_stepper();
        return stepper != first->thread && stepper != second->thread;
    }));
    for (const auto* each : {first.get(), second.get()})
        runner_->let_finish(each->what);
    for (auto* each : {first.get(), second.get()}) {
        each->returned.get();
        EXPECT_EQ(each->what->times_finished, 1);
        EXPECT_NE(each->what->finished_by, first->thread);
        EXPECT_NE(each->what->finished_by, second->thread);
    }
    runner_->unreserve();
}

TEST_F(io_driver_test, callers_drive_again_after_the_last_reservation) {
    runner_->reserve_for_own_thread();
    runner_->reserve_for_own_thread();
    runner_->unreserve();
    const auto what = std::make_shared<errand>();
    runner_->allow(what);
    runner_->perform(what);
    EXPECT_NE(what->finished_by.load(), std::this_thread::get_id());
    runner_->unreserve();
    EXPECT_TRUE(eventually([&] {
        const auto next = std::make_shared<errand>();
        runner_->allow(next);
        runner_->perform(next);
        return next->finished_by.load() == std::this_thread::get_id();
    }));
}

TEST_F(io_driver_test, a_step_of_the_reserved_thread_may_itself_wait_for_something) {
    runner_->reserve_for_own_thread();
    const auto inner = std::make_shared<errand>();
    const auto outer = std::make_shared<errand>();
    runner_->allow(inner);
    runner_->allow(outer);
    runner_->in_next_step([&] { runner_->perform(inner); });
    runner_->perform(outer);
    EXPECT_EQ(inner->times_finished, 1);
    EXPECT_EQ(outer->times_finished, 1);
    runner_->unreserve();
}

TEST_F(io_driver_test, the_reserved_thread_survives_the_exception_of_a_step) {
    runner_->reserve_for_own_thread();
    runner_->in_next_step([] { throw std::runtime_error("once"); });
    const auto what = std::make_shared<errand>();
    runner_->allow(what);
    runner_->perform(what);
    EXPECT_NE(what->finished_by.load(), std::this_thread::get_id());
    runner_->unreserve();
}

TEST_F(io_driver_test, reservations_come_and_go_among_busy_callers) {
    std::atomic<long> rounds{0};
    std::vector<std::jthread> busy;
    for (int i = 0; i < 8; ++i) {
        busy.emplace_back([&](const std::stop_token& stop) {
            while (!stop.stop_requested()) {
                const auto what = std::make_shared<errand>();
                runner_->allow(what);
                runner_->perform(what);
                EXPECT_EQ(what->times_finished, 1);
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
    EXPECT_FALSE(runner_->ever_stepped_by_two());
}

TEST_F(io_driver_test, errands_of_many_threads_finish_once_each_and_together) {
    constexpr std::size_t callers = 64;
    constexpr int rounds = 200;
    std::array<std::vector<std::shared_ptr<errand>>, callers> errands;
    {
        std::vector<std::jthread> threads;
        for (auto& own : errands) {
            threads.emplace_back([&] {
                for (int round = 0; round < rounds; ++round) {
                    own.push_back(runner_->perform());
                    EXPECT_EQ(own.back()->times_finished, 1);
                    if (round % 4 == 0) own.push_back(runner_->start());
                }
            });
        }
        // The first of all of them become one batch; from then on each goes as it comes.
        runner_->let_finish_all_once_open(callers);
    }
    for (const auto& own : errands) {
        for (const auto& each : own)
            EXPECT_TRUE(eventually([&] { return each->times_finished == 1; }));
    }
    EXPECT_GE(runner_->largest_batch(), callers);
    EXPECT_FALSE(runner_->ever_stepped_by_two());
}

TEST(wakeup, returns_to_a_thread_whose_cancellation_is_pending) {
    const wakeup loop;
    EXPECT_TRUE(returns_on_cancelled_thread([&] { loop.notify(); }));
}

}  // namespace
}  // namespace syncguard::test
