/// Lock files of schema 1, whose locks expired by the wall clock, and programs that still use it.
#include "sqlite/faulty_vfs.hpp"
#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"
#include "support/sqlite_connection.hpp"
#include "support/temporary_folder.hpp"

#include <syncguard/diagnostics.hpp>
#include <syncguard/sqlite.hpp>

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;

/// The schema of the first version.
constexpr const char* schema_1 = R"sql(
PRAGMA journal_mode = WAL;
CREATE TABLE syncguard_locks (
    key            TEXT PRIMARY KEY,
    lock_id        TEXT NOT NULL UNIQUE,
    expires_at_ms  INTEGER NOT NULL,
    acquired_at_ms INTEGER NOT NULL,
    fence          TEXT NOT NULL,
    user_key       TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX syncguard_locks_expires_at_ms ON syncguard_locks (expires_at_ms);
CREATE TABLE syncguard_fence_counters (
    fence_key TEXT PRIMARY KEY,
    fence     INTEGER NOT NULL DEFAULT 0,
    key_debug TEXT
) STRICT, WITHOUT ROWID;
PRAGMA application_id = 1400457060;
PRAGMA user_version = 1;
)sql";

class schema_1_file : public testing::Test {
  protected:
    schema_1_file() { sqlite_connection(path_).run(schema_1); }

    [[nodiscard]] sqlite::backend open() const { return sqlite::backend({.path = path_}); }

    /// A lock as the first version stored it.
    void put_lock(const std::string& key, milliseconds left, const std::string& fence) {
        const auto now = std::chrono::floor<milliseconds>(std::chrono::system_clock::now());
        const auto ms = [](auto time) { return std::to_string(time.time_since_epoch().count()); };
        sqlite_connection(path_).run("INSERT INTO syncguard_locks VALUES ('" + key + "', '" +
                                     std::string(22 - key.size(), 'x') + key + "', " +
                                     ms(now + left) + ", " + ms(now - 1h) + ", '" + fence + "', '" +
                                     key + "')");
    }
    void put_counter(const std::string& key, int counter) {
        sqlite_connection(path_).run("INSERT INTO syncguard_fence_counters VALUES ('fence:" + key +
                                     "', " + std::to_string(counter) + ", '" + key + "')");
    }

    temporary_folder folder_;
    std::filesystem::path path_ = folder_ / "locks.db";
};

TEST_F(schema_1_file, fences_continue_where_they_were) {
    put_counter("k", 41);
    auto lease = open().acquire("k");
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->fence(), fence::from_counter(42));
    EXPECT_EQ(sqlite_connection(path_).run("PRAGMA user_version"), (std::vector<std::string>{"2"}));
}

TEST_F(schema_1_file, the_fence_of_an_expired_lock_is_respected_if_the_counter_was_lost) {
    put_lock("k", -1h, "000000000000077");
    auto lease = open().acquire("k");
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->fence(), fence::from_counter(78));
}

TEST_F(schema_1_file, live_locks_stay_locked_for_their_remaining_time_and_a_second) {
    put_lock("k", 600ms, "000000000000001");
    put_counter("k", 1);
    const auto began = std::chrono::steady_clock::now();
    const auto locks = open();
    EXPECT_EQ(get_by_key(locks, "k")->fence, fence::from_counter(1));
    EXPECT_TRUE(eventually([&] { return locks.acquire("k").ok(); }));
    const auto waited = std::chrono::steady_clock::now() - began;
    // The migration adds one second and the tolerance another. The remaining time may be shorter
    // when the file is migrated.
    EXPECT_GT(waited, 2s + 300ms);
    EXPECT_LT(waited, 10s);
}

TEST_F(schema_1_file, statements_of_the_first_version_fail_after_the_migration) {
    put_counter("k", 1);
    sqlite_connection old(path_);
    std::vector<sqlite3_stmt*> statements;
    for (const char* sql :
         {"SELECT key FROM syncguard_locks WHERE key = 'k'",
          "INSERT INTO syncguard_fence_counters (fence_key, fence, key_debug) "
          "VALUES ('fence:k', 1, 'k') "
          "ON CONFLICT (fence_key) DO UPDATE SET fence = fence + 1 RETURNING fence",
          "INSERT INTO syncguard_locks VALUES ('k', 'b', 1, 1, '000000000000002', 'k')"}) {
        sqlite3_stmt* statement = nullptr;
        ASSERT_EQ(sqlite3_prepare_v3(old.handle(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement,
                                     nullptr),
                  SQLITE_OK);
        statements.push_back(statement);
    }
    sqlite3_step(statements[0]);
    sqlite3_reset(statements[0]);
    ASSERT_TRUE(open().acquire("k"));
    for (auto* statement : statements) {
        EXPECT_EQ(sqlite3_step(statement), SQLITE_ERROR) << sqlite3_sql(statement);
        sqlite3_finalize(statement);
    }
}

TEST_F(schema_1_file, a_read_of_it_migrates_it_too) {
    put_lock("k", 1h, "000000000000005");
    EXPECT_TRUE(open().is_locked("k"));
    EXPECT_TRUE(open().is_locked("k"));
    EXPECT_FALSE(open().is_locked("other"));
}

TEST_F(schema_1_file, many_processes_may_migrate_it_at_once) {
    put_counter("k", 41);
    put_lock("held", 1h, "000000000000005");
    std::vector<std::unique_ptr<child_process>> children;
    for (int i = 0; i < 8; ++i) {
        children.push_back(std::make_unique<child_process>([&, i] {
            const auto locks = open();
            if (!locks.is_locked("held")) return 1;
            return locks.acquire("key:" + std::to_string(i)) ? 0 : 2;
        }));
    }
    for (auto& child : children)
        EXPECT_EQ(child->wait(), 0);
    EXPECT_EQ(open().acquire("k")->fence(), fence::from_counter(42));
}

TEST(killed_in_a_migration, at_every_writing_call_no_lock_and_no_fence_is_lost) {
    const faulty_vfs faults;
    int kills = 0;
    for (int nth = 1;; ++nth) {
        SCOPED_TRACE("writing call " + std::to_string(nth));
        const temporary_folder folder;
        const auto path = folder / "locks.db";
        {
            sqlite_connection old(path);
            old.run(schema_1);
            old.run(
                "INSERT INTO syncguard_fence_counters VALUES ('fence:k', 41, 'k'); "
                "INSERT INTO syncguard_locks SELECT 'held', 'aaaaaaaaaaaaaaaaaaaaaa', "
                "unixepoch() * 1000 + 3600000, unixepoch() * 1000, '000000000000005', 'held'");
        }
        child_process child([&] {
            faulty_vfs::act_before(nth, [] { ::kill(::getpid(), SIGKILL); });
            return sqlite::backend({.path = path}).is_locked("held") ? 0 : 1;
        });
        const int code = child.wait();
        ASSERT_TRUE(code == 0 || code == 128 + SIGKILL) << code;
        const sqlite::backend locks({.path = path});
        EXPECT_TRUE(locks.is_locked("held"));
        EXPECT_EQ(locks.acquire("k")->fence(), fence::from_counter(42));
        if (HasFailure() || code == 0) break;
        ++kills;
    }
    EXPECT_GT(kills, 3);
}

TEST(newer_schema, is_refused_also_by_a_process_that_has_the_file_open) {
    const temporary_folder folder;
    const auto path = folder / "locks.db";
    const sqlite::backend locks({.path = path});
    auto lease = locks.acquire("k", {.ttl = 1h});
    ASSERT_TRUE(lease);
    sqlite_connection(path).run("PRAGMA user_version = 7");
    const auto refused = [](const std::function<void()>& call) {
        const auto failure = expect_error(error_code::invalid_argument, call);
        if (failure) {
            EXPECT_NE(std::string(failure->what()).find("newer"), std::string::npos);
        }
    };
    refused([&] { (void)locks.acquire("other"); });
    refused([&] { (void)lease->extend({.ttl = 1h}); });
    refused([&] { (void)locks.release(lease->lock_id()); });
}

TEST(newer_schema, is_named_even_if_its_tables_are_gone) {
    const temporary_folder folder;
    const auto path = folder / "locks.db";
    const sqlite::backend locks({.path = path});
    ASSERT_TRUE(locks.acquire("k"));
    sqlite_connection(path).run(
        "ALTER TABLE syncguard_locks_v2 RENAME TO syncguard_locks_v7; PRAGMA user_version = 7");
    const auto failure =
        expect_error(error_code::invalid_argument, [&] { (void)locks.is_locked("k"); });
    ASSERT_TRUE(failure);
    EXPECT_NE(std::string(failure->what()).find("newer"), std::string::npos);
}

TEST(lost_counter, the_fence_of_the_expired_lock_is_respected) {
    const temporary_folder folder;
    const auto path = folder / "locks.db";
    const sqlite::backend locks({.path = path});
    for (int i = 0; i < 5; ++i)
        ASSERT_TRUE(locks.acquire("k"));
    locks.acquire("k", {.ttl = 1s})->detach();
    sqlite_connection(path).run("DELETE FROM syncguard_fence_counters_v2");
    EXPECT_TRUE(eventually([&] {
        auto lease = locks.acquire("k");
        return lease && lease->fence() > fence::from_counter(6);
    }));
}

}  // namespace
}  // namespace syncguard::test
