/// SQLite on failing disks: the Nth writing call fails, for every N up to the last call.
#include "sqlite/faulty_vfs.hpp"
#include "support/child_process.hpp"
#include "support/manual_clock.hpp"
#include "support/temporary_folder.hpp"

#include <syncguard/diagnostics.hpp>
#include <syncguard/sqlite.hpp>

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <tuple>
#include <vector>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;

/// A lock file with a clock in a private folder.
struct lock_file {
    temporary_folder folder;
    manual_clock clock;
    std::filesystem::path path = folder / "locks.db";

    [[nodiscard]] sqlite::backend open() const {
        return sqlite::backend({.path = path, .clock = clock.as_wall_clock()});
    }
};

/// Acquires, extends and releases locks and reports each grant. Ends at the first failure.
void live(const sqlite::backend& locks, const std::function<void(const fence&)>& granted) {
    for (int round = 0; round < 3; ++round) {
        auto lease = locks.acquire("k", {.ttl = 30s});
        if (!lease) return;
        granted(lease->fence());
        const auto id = lease->detach();
        if (!locks.extend(id, {.ttl = 60s}).ok) return;
        if (!locks.release(id).ok) return;
    }
}

/// Checks the file after a fault, on a healthy disk.
void expect_sound(lock_file& file, const std::vector<fence>& granted) {
    const auto locks = file.open();
    file.clock.advance(1h);
    auto next = locks.acquire("k");
    ASSERT_TRUE(next);
    for (const auto& token : granted)
        EXPECT_GT(next->fence(), token);
}

class failing_disk : public testing::TestWithParam<std::tuple<int, bool>> {};

INSTANTIATE_TEST_SUITE_P(every_call, failing_disk,
                         testing::Combine(testing::Values(SQLITE_FULL, SQLITE_IOERR),
                                          testing::Bool()),
                         [](const auto& test) {
                             return std::string(std::get<0>(test.param) == SQLITE_FULL ? "full"
                                                                                       : "error") +
                                    (std::get<1>(test.param) ? "_lasting" : "_once");
                         });

TEST_P(failing_disk, every_failure_names_the_file_and_loses_no_fence) {
    const auto [result_code, lasting] = GetParam();
    const faulty_vfs faults;
    int strikes = 0;
    for (int nth = 1;; ++nth) {
        SCOPED_TRACE("writing call " + std::to_string(nth));
        lock_file file;
        std::vector<fence> granted;
        if (lasting) {
            faulty_vfs::fail_from(nth, result_code);
        } else {
            faulty_vfs::fail_once(nth, result_code);
        }
        try {
            const auto locks = file.open();
            live(locks, [&](const fence& token) { granted.push_back(token); });
        } catch (const lock_error& failure) {
            EXPECT_EQ(to_string(failure.code()), "ServiceUnavailable") << failure.what();
            EXPECT_NE(std::string(failure.what()).find(file.path.string()), std::string::npos)
                << failure.what();
        }
        const bool struck = faulty_vfs::struck();
        faulty_vfs::behave();
        if (const auto held = get_by_key(file.open(), "k")) {
            // A failed acquisition leaves nothing locked: each stored lock was granted to a caller.
            // On a disk that stays broken the last lock may remain until its TTL ends: its commit
            // was written and could be neither confirmed nor undone.
            const auto unconfirmed = fence::from_counter(granted.size() + 1);
            EXPECT_TRUE((!granted.empty() && held->fence == granted.back()) ||
                        (lasting && held->fence == unconfirmed));
        }
        expect_sound(file, granted);
        if (HasFatalFailure() || !struck) break;
        ++strikes;
    }
    // The test is only valid if many calls have failed.
    EXPECT_GT(strikes, 20);
}

TEST(failing_disk_once, a_failed_acquisition_leaves_the_key_free_and_the_backend_usable) {
    const faulty_vfs faults;
    lock_file file;
    const auto locks = file.open();
    ASSERT_TRUE(locks.acquire("warm-up"));
    int failures = 0;
    for (int nth = 1; nth < 6; ++nth) {
        faulty_vfs::fail_once(nth, SQLITE_FULL);
        try {
            auto lease = locks.acquire("k");
        } catch (const lock_error&) {
            ++failures;
        }
        faulty_vfs::behave();
        EXPECT_FALSE(file.open().is_locked("k"));
        EXPECT_FALSE(locks.is_locked("k"));
        EXPECT_TRUE(locks.acquire("k"));
    }
    EXPECT_GT(failures, 0);
}

TEST(killed_in_the_middle, at_every_writing_call_no_fence_is_lost) {
    const faulty_vfs faults;
    int kills = 0;
    for (int nth = 1;; ++nth) {
        SCOPED_TRACE("writing call " + std::to_string(nth));
        lock_file file;
        int pipe_ends[2];
        ASSERT_EQ(::pipe(pipe_ends), 0);
        child_process child([&] {
            faulty_vfs::act_before(nth, [] { ::kill(::getpid(), SIGKILL); });
            live(file.open(), [&](const fence& token) {
                if (::write(pipe_ends[1], token.str().data(), fence::length) != fence::length) {
                    ::_exit(3);
                }
            });
            return 0;
        });
        const int code = child.wait();
        ::close(pipe_ends[1]);
        std::vector<fence> granted;
        std::string token(fence::length, '\0');
        while (::read(pipe_ends[0], token.data(), token.size()) == fence::length) {
            granted.push_back(*fence::parse(token));
        }
        ::close(pipe_ends[0]);
        ASSERT_TRUE(code == 0 || code == 128 + SIGKILL) << code;

        expect_sound(file, granted);
        if (HasFatalFailure() || code == 0) break;
        ++kills;
    }
    EXPECT_GT(kills, 20);
}

}  // namespace
}  // namespace syncguard::test
