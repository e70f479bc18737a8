#include "core/wait_queue.hpp"

#include "support/eventually.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace syncguard {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto patience = 20s;

bool is_first(waiting_line::place& who) {
    return who.is_first_by(steady_clock::now(), {});
}

TEST(waiting_line, who_comes_first_is_first) {
    waiting_line line;
    std::optional<waiting_line::place> first(std::in_place, line, "k");
    std::optional<waiting_line::place> second(std::in_place, line, "k");
    waiting_line::place third(line, "k");
    EXPECT_TRUE(is_first(*first));
    EXPECT_FALSE(is_first(*second));
    EXPECT_FALSE(is_first(third));
    second.reset();
    EXPECT_FALSE(is_first(third));
    first.reset();
    EXPECT_TRUE(is_first(third));
}

TEST(waiting_line, every_key_has_its_own) {
    waiting_line line;
    waiting_line::place a(line, "a");
    waiting_line::place b(line, "b");
    EXPECT_TRUE(is_first(a));
    EXPECT_TRUE(is_first(b));
}

TEST(waiting_line, threads_have_their_turns_in_the_order_in_which_they_came) {
    constexpr std::size_t count = 50;
    waiting_line line;
    std::optional<waiting_line::place> first(std::in_place, line, "k");
    std::vector<std::unique_ptr<waiting_line::place>> places;
    for (std::size_t i = 0; i < count; ++i)
        places.push_back(std::make_unique<waiting_line::place>(line, "k"));
    std::mutex mutex;
    std::vector<std::size_t> turns;
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = count; i-- > 0;) {
            threads.emplace_back([&, i] {
                EXPECT_TRUE(places[i]->is_first_by(steady_clock::now() + patience, {}));
                const std::lock_guard guard(mutex);
                turns.push_back(i);
                places[i].reset();
            });
        }
        first.reset();
    }
    ASSERT_EQ(turns.size(), count);
    EXPECT_TRUE(std::is_sorted(turns.begin(), turns.end()));
}

TEST(waiting_line, a_stop_request_ends_the_waiting) {
    waiting_line line;
    const waiting_line::place first(line, "k");
    std::stop_source stop;
    std::atomic<bool> ended{false};
    std::jthread other([&] {
        waiting_line::place second(line, "k");
        EXPECT_FALSE(second.is_first_by(steady_clock::now() + 1h, stop.get_token()));
        ended = true;
    });
    stop.request_stop();
    EXPECT_TRUE(test::eventually([&] { return ended.load(); }));
}

TEST(waiting_line, those_behind_a_first_that_asks_wait_and_those_behind_one_that_sleeps_do_not) {
    waiting_line line;
    std::optional<waiting_line::place> first(std::in_place, line, "k");
    std::optional<waiting_line::place> second(std::in_place, line, "k");
    waiting_line::place third(line, "k");
    const auto may_ask = [](waiting_line::place& who) {
        return who.may_ask_by(steady_clock::now(), {});
    };
    EXPECT_FALSE(may_ask(third));
    first->set_asking(false);
    EXPECT_TRUE(may_ask(third));
    // Only the state of the first place counts.
    second->set_asking(true);
    EXPECT_TRUE(may_ask(third));
    first.reset();
    EXPECT_FALSE(may_ask(third)) << "the new first begins by asking";
}

/// A client that has released a key and acquires it again.
class yielding : public testing::Test {
  protected:
    void hold(milliseconds length, std::uint64_t counter, bool found_locked = false) {
        line_.granted("k", fence::from_counter(counter), found_locked, now_);
        now_ += length;
        line_.released("k", now_);
    }
    [[nodiscard]] milliseconds pause() {
        const auto until = line_.yields_until("k");
        return std::max(std::chrono::ceil<milliseconds>(until - now_), milliseconds{0});
    }

    waiting_line line_;
    steady_clock::time_point now_{1h};
};

TEST_F(yielding, a_client_that_knows_of_no_others_does_not_pause) {
    EXPECT_EQ(pause(), 0ms);
    hold(1s, 7);
    EXPECT_EQ(pause(), 0ms);
    hold(500ms, 8);
    EXPECT_EQ(pause(), 0ms);
}

TEST_F(yielding, a_client_after_whose_last_grant_others_had_the_key_pauses_as_long_as_it_held_it) {
    hold(1s, 7);
    now_ += 1s;
    hold(100ms, 9);
    EXPECT_EQ(pause(), 100ms);
    now_ += 1s;
    hold(1ms, 11);
    EXPECT_EQ(pause(), 20ms);
    now_ += 1s;
    hold(1min, 13);
    EXPECT_EQ(pause(), waiting_line::longest_yield);
    now_ += 1s;
    hold(100ms, 14);
    EXPECT_EQ(pause(), 0ms) << "nobody else wanted it";
}

TEST_F(yielding, a_client_that_had_to_wait_for_its_first_grant_knows_of_others) {
    hold(100ms, 7, true);
    EXPECT_EQ(pause(), 100ms);
}

TEST_F(yielding, a_client_that_takes_the_key_again_and_again_pauses_now_and_then) {
    std::uint64_t counter = 0;
    for (int i = 0; i < 19; ++i) {
        hold(100ms, ++counter);
        ASSERT_EQ(pause(), 0ms) << i;
        now_ += 5ms;
    }
    hold(100ms, ++counter);
    EXPECT_EQ(pause(), waiting_line::longest_yield);
    now_ += waiting_line::longest_yield;
    hold(100ms, ++counter);
    EXPECT_EQ(pause(), 0ms);
}

TEST_F(yielding, other_keys_and_a_key_that_is_held_are_not_concerned) {
    hold(100ms, 7, true);
    EXPECT_LT(line_.yields_until("other"), now_);
    line_.granted("k", fence::from_counter(9), false, now_);
    EXPECT_LT(line_.yields_until("k"), now_);
}

TEST(waiting_line, a_forked_child_does_not_wait_for_threads_of_its_parent) {
    waiting_line line;
    const waiting_line::place of_the_parent(line, "k");
    const pid_t child = ::fork();
    if (child == 0) {
        waiting_line::place of_the_child(line, "k");
        ::_exit(is_first(of_the_child) ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace syncguard
