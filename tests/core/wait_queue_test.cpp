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

constexpr auto max_wait = 20s;

bool is_first(wait_queue::ticket& ticket) {
    return ticket.wait_until_first(steady_clock::now(), {});
}

TEST(wait_queue, the_first_ticket_is_first) {
    wait_queue waiters;
    std::optional<wait_queue::ticket> first(std::in_place, waiters, "k");
    std::optional<wait_queue::ticket> second(std::in_place, waiters, "k");
    wait_queue::ticket third(waiters, "k");
    EXPECT_TRUE(is_first(*first));
    EXPECT_FALSE(is_first(*second));
    EXPECT_FALSE(is_first(third));
    second.reset();
    EXPECT_FALSE(is_first(third));
    first.reset();
    EXPECT_TRUE(is_first(third));
}

TEST(wait_queue, every_key_has_a_queue_of_its_own) {
    wait_queue waiters;
    wait_queue::ticket a(waiters, "a");
    wait_queue::ticket b(waiters, "b");
    EXPECT_TRUE(is_first(a));
    EXPECT_TRUE(is_first(b));
}

TEST(wait_queue, threads_are_served_in_the_order_of_their_arrival) {
    constexpr std::size_t count = 50;
    wait_queue waiters;
    std::optional<wait_queue::ticket> first(std::in_place, waiters, "k");
    std::vector<std::unique_ptr<wait_queue::ticket>> tickets;
    for (std::size_t i = 0; i < count; ++i)
        tickets.push_back(std::make_unique<wait_queue::ticket>(waiters, "k"));
    std::mutex mutex;
    std::vector<std::size_t> turns;
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = count; i-- > 0;) {
            threads.emplace_back([&, i] {
                EXPECT_TRUE(tickets[i]->wait_until_first(steady_clock::now() + max_wait, {}));
                const std::lock_guard guard(mutex);
                turns.push_back(i);
                tickets[i].reset();
            });
        }
        first.reset();
    }
    ASSERT_EQ(turns.size(), count);
    EXPECT_TRUE(std::is_sorted(turns.begin(), turns.end()));
}

TEST(wait_queue, a_stop_request_ends_the_waiting) {
    wait_queue waiters;
    const wait_queue::ticket first(waiters, "k");
    std::stop_source stop;
    std::atomic<bool> ended{false};
    std::jthread other([&] {
        wait_queue::ticket second(waiters, "k");
        EXPECT_FALSE(second.wait_until_first(steady_clock::now() + 1h, stop.get_token()));
        ended = true;
    });
    stop.request_stop();
    EXPECT_TRUE(test::eventually([&] { return ended.load(); }));
}

TEST(wait_queue, tickets_wait_while_the_first_one_is_asking_and_not_while_it_sleeps) {
    wait_queue waiters;
    std::optional<wait_queue::ticket> first(std::in_place, waiters, "k");
    std::optional<wait_queue::ticket> second(std::in_place, waiters, "k");
    wait_queue::ticket third(waiters, "k");
    const auto may_ask = [](wait_queue::ticket& ticket) {
        return ticket.wait_until_may_ask(steady_clock::now(), {});
    };
    EXPECT_FALSE(may_ask(third));
    first->set_asking(false);
    EXPECT_TRUE(may_ask(third));
    // Only the state of the first ticket counts.
    second->set_asking(true);
    EXPECT_TRUE(may_ask(third));
    first.reset();
    EXPECT_FALSE(may_ask(third)) << "the new first begins by asking";
}

/// A client that has released a key and acquires it again.
class yielding : public testing::Test {
  protected:
    void hold(milliseconds length, std::uint64_t counter, bool found_locked = false) {
        waiters_.granted("k", fence::from_counter(counter), found_locked, now_);
        now_ += length;
        waiters_.released("k", now_);
    }
    [[nodiscard]] milliseconds pause() {
        const auto until = waiters_.yields_until("k");
        return std::max(std::chrono::ceil<milliseconds>(until - now_), milliseconds{0});
    }

    wait_queue waiters_;
    steady_clock::time_point now_{1h};
};

TEST_F(yielding, a_client_without_known_competitors_does_not_pause) {
    EXPECT_EQ(pause(), 0ms);
    hold(1s, 7);
    EXPECT_EQ(pause(), 0ms);
    hold(500ms, 8);
    EXPECT_EQ(pause(), 0ms);
}

TEST_F(yielding, a_client_pauses_as_long_as_it_held_the_key_if_others_had_it_since_its_last_grant) {
    hold(1s, 7);
    now_ += 1s;
    hold(100ms, 9);
    EXPECT_EQ(pause(), 100ms);
    now_ += 1s;
    hold(1ms, 11);
    EXPECT_EQ(pause(), 20ms);
    now_ += 1s;
    hold(1min, 13);
    EXPECT_EQ(pause(), wait_queue::longest_yield);
    now_ += 1s;
    hold(100ms, 14);
    EXPECT_EQ(pause(), 0ms) << "nobody else wanted it";
}

TEST_F(yielding, a_client_that_waited_for_its_first_grant_has_known_competitors) {
    hold(100ms, 7, true);
    EXPECT_EQ(pause(), 100ms);
}

TEST_F(yielding, a_client_that_takes_the_key_repeatedly_pauses_occasionally) {
    std::uint64_t counter = 0;
    for (int i = 0; i < 19; ++i) {
        hold(100ms, ++counter);
        ASSERT_EQ(pause(), 0ms) << i;
        now_ += 5ms;
    }
    hold(100ms, ++counter);
    EXPECT_EQ(pause(), wait_queue::longest_yield);
    now_ += wait_queue::longest_yield;
    hold(100ms, ++counter);
    EXPECT_EQ(pause(), 0ms);
}

TEST_F(yielding, other_keys_and_a_held_key_are_not_affected) {
    hold(100ms, 7, true);
    EXPECT_LT(waiters_.yields_until("other"), now_);
    waiters_.granted("k", fence::from_counter(9), false, now_);
    EXPECT_LT(waiters_.yields_until("k"), now_);
}

TEST(wait_queue, a_forked_child_does_not_wait_for_threads_of_its_parent) {
    wait_queue waiters;
    const wait_queue::ticket of_the_parent(waiters, "k");
    const pid_t child = ::fork();
    if (child == 0) {
        wait_queue::ticket of_the_child(waiters, "k");
        ::_exit(is_first(of_the_child) ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace syncguard
