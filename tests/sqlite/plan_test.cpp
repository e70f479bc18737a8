/// The cost of the statements on a lock file with many locks.
#include "sqlite/database.hpp"
#include "sqlite/host_clock.hpp"
#include "sqlite/lock_table.hpp"
#include "sqlite/schema.hpp"
#include "support/sqlite_connection.hpp"
#include "support/temporary_folder.hpp"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <string>
#include <string_view>

namespace syncguard::test {
namespace {

/// The connection that was opened last, while an object of this class exists.
class latest_connection {
  public:
    latest_connection() { sqlite3_auto_extension(reinterpret_cast<void (*)()>(note)); }
    latest_connection(const latest_connection&) = delete;
    latest_connection& operator=(const latest_connection&) = delete;
    ~latest_connection() { sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(note)); }

    [[nodiscard]] sqlite3* get() const noexcept { return latest_; }

  private:
    static int note(sqlite3* opened, const char** /*message*/,
                    const sqlite3_api_routines* /*api*/) {
        latest_ = opened;
        return SQLITE_OK;
    }

    static inline sqlite3* latest_ = nullptr;
};

TEST(sqlite_plans, no_statement_reads_all_of_100000_locks) {
    constexpr int stored = 100'000;
    const temporary_folder folder;
    const auto path = folder.path() / "locks.db";
    const latest_connection latest;
    sqlite::database file(path);
    sqlite3* const handle = latest.get();
    sqlite::ensure_schema(file, sqlite::host_clock());
    // Locks of this boot and of another one; all expire in the future.
    sqlite_connection(path).run(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " +
        std::to_string(stored) +
        ") INSERT INTO syncguard_locks_v2 SELECT 'key:' || i, printf('%022d', i), "
        "iif(i < 99000, 'boot', 'another boot'), 0, 1000000 + i, 0, 0, '000000000000001', 'k', "
        "NULL FROM n");

    sqlite::lock_table locks(file);
    const sqlite::host_time now{.boot_id = "boot", .boot_ms = 1000};
    const auto found = locks.by_key("key:50000");
    ASSERT_TRUE(found);
    EXPECT_TRUE(locks.by_id(found->record.id));
    EXPECT_EQ(locks.raise_fence("fence", "k", found), 2U);
    locks.put(*found);
    locks.set_period(*found, now.period(milliseconds(1000)), unix_time(milliseconds(1000)));
    locks.erase(*found);
    EXPECT_TRUE(locks.any_ended_before(now));
    locks.erase_some_ended_before(now);
    EXPECT_FALSE(locks.any_ended_before({.boot_id = {}, .boot_ms = 1000}));

    int statements = 0;
    for (auto* each = sqlite3_next_stmt(handle, nullptr); each != nullptr;
         each = sqlite3_next_stmt(handle, each)) {
        if (std::string_view(sqlite3_sql(each)).find("syncguard_") == std::string_view::npos) {
            continue;
        }
        ++statements;
        // Each row that is read takes at least one step.
        const int steps = sqlite3_stmt_status(each, SQLITE_STMTSTATUS_VM_STEP, 0);
        EXPECT_GT(steps, 0) << sqlite3_sql(each);
        EXPECT_LT(steps, stored / 10) << sqlite3_sql(each);
    }
    EXPECT_GE(statements, 8);
}

}  // namespace
}  // namespace syncguard::test
