#include "support/child_process.hpp"

#include <syncguard/lock_id.hpp>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

TEST(lock_ids, many_threads_make_ids_that_all_differ) {
    std::mutex mutex;
    std::set<std::string> all;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; ++i) {
            threads.emplace_back([&] {
                std::vector<std::string> mine;
                for (int n = 0; n < 2000; ++n)
                    mine.push_back(lock_id::generate().to_string());
                const std::lock_guard guard(mutex);
                all.insert(mine.begin(), mine.end());
            });
        }
    }
    EXPECT_EQ(all.size(), 8000U);
    for (const auto& id : all)
        EXPECT_TRUE(lock_id::is_valid(id));
}

TEST(lock_ids, a_forked_child_does_not_repeat_its_parents_ids) {
    (void)lock_id::generate();
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    const auto write_id = [&] {
        const std::string id = lock_id::generate().to_string();
        return ::write(pipe_ends[1], id.data(), id.size()) == 22 ? 0 : 1;
    };
    child_process child(write_id);
    std::string childs(22, '\0');
    ASSERT_EQ(::read(pipe_ends[0], childs.data(), childs.size()), 22);
    EXPECT_EQ(child.wait(), 0);
    ::close(pipe_ends[0]);
    ::close(pipe_ends[1]);

    EXPECT_TRUE(lock_id::is_valid(childs));
    for (int i = 0; i < 300; ++i)
        EXPECT_NE(lock_id::generate().str(), childs);
}

TEST(lock_ids, a_child_that_ran_no_fork_handlers_does_not_repeat_its_parents_ids) {
    (void)lock_id::generate();
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    const auto pid = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    if (pid == 0) {
        const auto id = lock_id::generate();
        ::_exit(::write(pipe_ends[1], id.str().data(), id.str().size()) == 22 ? 0 : 1);
    }
    std::string childs(22, '\0');
    ASSERT_EQ(::read(pipe_ends[0], childs.data(), childs.size()), 22);
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    ::close(pipe_ends[0]);
    ::close(pipe_ends[1]);
    for (int i = 0; i < 300; ++i)
        EXPECT_NE(lock_id::generate().str(), childs);
}

TEST(lock_ids, every_bit_varies) {
    // 22 characters of 6 bits each; the last has 2 bits of data.
    std::vector<std::set<char>> seen(lock_id::length);
    for (int i = 0; i < 4000; ++i) {
        const auto id = lock_id::generate();
        for (std::size_t position = 0; position < lock_id::length; ++position) {
            seen[position].insert(id.str()[position]);
        }
    }
    for (std::size_t position = 0; position + 1 < lock_id::length; ++position) {
        EXPECT_EQ(seen[position].size(), 64U) << position;
    }
    EXPECT_EQ(seen.back(), (std::set<char>{'A', 'Q', 'g', 'w'}));
}

}  // namespace
}  // namespace syncguard::test
