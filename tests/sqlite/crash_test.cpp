/// SQLite and processes: killed, forked, starting at the same time.
#include "support/child_process.hpp"
#include "support/temporary_folder.hpp"

#include <syncguard/lock.hpp>
#include <syncguard/sqlite.hpp>

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;

const lock_options patient{
    .timeout = 60s,
    .retry = {
        .max_retries = retry_policy::unlimited_retries, .retry_delay = 1ms, .max_delay = 5ms}};

TEST(kill_9, under_load_fences_continue_where_they_were) {
    const temporary_folder folder;
    const auto path = folder / "locks.db";
    fence last;
    for (int round = 0; round < 8; ++round) {
        int pipe_ends[2];
        ASSERT_EQ(::pipe(pipe_ends), 0);
        child_process child([&] {
            const sqlite::backend locks({.path = path});
            // The lease is released in each iteration, and the fence counter of "k" rises.
            while (true) {
                auto lease = locks.acquire("k", {.ttl = 500ms});
                if (!lease) continue;
                if (::write(pipe_ends[1], lease->fence().str().data(), fence::length) < 0) return 1;
            }
        });
        ::close(pipe_ends[1]);
        std::string token(fence::length, '\0');
        for (int grants = 0; grants < 20; ++grants) {
            ASSERT_EQ(::read(pipe_ends[0], token.data(), token.size()),
                      static_cast<ssize_t>(fence::length));
            EXPECT_GT(*fence::parse(token), last);
            last = *fence::parse(token);
        }
        child.kill(SIGKILL);
        EXPECT_EQ(child.wait(), 128 + SIGKILL);
        while (::read(pipe_ends[0], token.data(), token.size()) == fence::length) {
            EXPECT_GT(*fence::parse(token), last);
            last = *fence::parse(token);
        }
        ::close(pipe_ends[0]);
    }
    const sqlite::backend locks({.path = path});
    EXPECT_GT(lock(
                  locks, "k", [](held& held) { return held.fence(); }, patient),
              last);
}

TEST(kill_9, a_dead_holders_lock_ends_with_its_ttl) {
    const temporary_folder folder;
    const auto path = folder / "locks.db";
    // Create the file before the short TTL begins.
    EXPECT_FALSE(sqlite::backend({.path = path}).is_locked("k"));
    child_process child([&] {
        const sqlite::backend locks({.path = path});
        auto lease = locks.acquire("k", {.ttl = 100ms});
        ::raise(SIGKILL);
        return 0;
    });
    EXPECT_EQ(child.wait(), 128 + SIGKILL);
    const sqlite::backend locks({.path = path});
    EXPECT_TRUE(locks.is_locked("k"));
    EXPECT_EQ(lock(
                  locks, "k", [](held& held) { return held.fence(); }, patient),
              fence::from_counter(2));
}

TEST(many_processes, may_create_the_file_at_the_same_moment) {
    for (int round = 0; round < 10; ++round) {
        const temporary_folder folder;
        const auto path = folder / "locks.db";
        std::vector<std::unique_ptr<child_process>> children;
        for (int i = 0; i < 8; ++i) {
            children.push_back(std::make_unique<child_process>([&, i] {
                const sqlite::backend locks({.path = path});
                return locks.acquire("key:" + std::to_string(i)) ? 0 : 1;
            }));
        }
        for (auto& child : children)
            EXPECT_EQ(child->wait(), 0);
    }
}

TEST(fork, a_child_uses_the_backend_it_inherited_and_excludes_its_parent) {
    const temporary_folder folder;
    const sqlite::backend locks({.path = folder / "locks.db"});
    auto lease = locks.acquire("held-by-parent");
    ASSERT_TRUE(lease);
    {
        child_process child([&] {
            if (!locks.is_locked("held-by-parent")) return 1;
            if (locks.acquire("held-by-parent")) return 2;
            if (lease->valid() || lease->release().ok) return 3;
            for (int i = 0; i < 50; ++i)
                lock(
                    locks, "shared", [] {}, patient);
            return 0;
        });
        for (int i = 0; i < 50; ++i)
            lock(
                locks, "shared", [] {}, patient);
        EXPECT_EQ(child.wait(), 0);
    }
    EXPECT_EQ(lock(
                  locks, "shared", [](held& held) { return held.fence(); }, patient),
              fence::from_counter(101));
    EXPECT_TRUE(lease->release().ok);
}

TEST(fork, while_other_threads_are_busy_neither_side_hangs) {
    const temporary_folder folder;
    const sqlite::backend locks({.path = folder / "locks.db"});
    std::vector<std::jthread> busy;
    for (int i = 0; i < 3; ++i) {
        busy.emplace_back([&locks, i](const std::stop_token& stop) {
            while (!stop.stop_requested()) {
                auto lease = locks.acquire("thread:" + std::to_string(i));
            }
        });
    }
    for (int round = 0; round < 10; ++round) {
        child_process child([&] { return locks.acquire("child", {.ttl = 10s}) ? 0 : 1; });
        EXPECT_EQ(child.wait(), 0);
    }
}

}  // namespace
}  // namespace syncguard::test
