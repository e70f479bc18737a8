/// The lock file: its layout, and files that are foreign, damaged or not accessible.
#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"
#include "support/manual_clock.hpp"
#include "support/sqlite_connection.hpp"
#include "support/temporary_folder.hpp"

#include <syncguard/async.hpp>
#include <syncguard/sqlite.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

class lock_file_test : public testing::Test {
  protected:
    [[nodiscard]] sqlite::backend open(milliseconds timeout = 5s) const {
        return sqlite::backend({.path = path_}, {.operation_timeout = timeout});
    }
    [[nodiscard]] std::string content() const {
        std::ifstream file(path_, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    /// Expects that acquiring fails with `code` and a message that names the file.
    std::string refusal(error_code code) {
        const auto failure = expect_error(code, [&] { (void)open().acquire("k"); });
        if (!failure) return {};
        EXPECT_NE(std::string(failure->what()).find(path_.string()), std::string::npos)
            << failure->what();
        return failure->what();
    }

    /// Removes the file and SQLite's side files, as an operator does who restores a backup.
    void remove_file() const {
        for (const char* suffix : {"", "-wal", "-shm"}) {
            std::filesystem::remove(path_.string() + suffix);
        }
    }

    temporary_folder folder_;
    std::filesystem::path path_ = folder_ / "locks.db";
};

TEST_F(lock_file_test, rows_are_stored_exactly_as_documented) {
    manual_clock clock;
    const sqlite::backend locks({.path = path_, .clock = clock.as_wall_clock()});
    auto lease = locks.acquire("caf\xC3\xA9", {.ttl = 30s});
    ASSERT_TRUE(lease);
    sqlite_connection other(path_);
    EXPECT_EQ(other.run("SELECT * FROM syncguard_locks_v2"),
              (std::vector<std::string>{"caf\xC3\xA9|" + lease->lock_id().to_string() +
                                        "|replaced clock|1700000000000|1700000030000|1700000030000|"
                                        "1700000000000|000000000000001|caf\xC3\xA9|NULL"}));
    EXPECT_EQ(other.run("SELECT * FROM syncguard_fence_counters_v2"),
              (std::vector<std::string>{"fence:caf\xC3\xA9|1|caf\xC3\xA9"}));
    EXPECT_EQ(other.run("SELECT name FROM pragma_table_info('syncguard_locks_v2')"),
              (std::vector<std::string>{"key", "lock_id", "boot_id", "began_boot_ms",
                                        "ends_boot_ms", "expires_at_ms", "acquired_at_ms", "fence",
                                        "user_key", "holder"}));
    EXPECT_EQ(other.run("PRAGMA user_version"), (std::vector<std::string>{"2"}));
    EXPECT_EQ(other.run("PRAGMA journal_mode"), (std::vector<std::string>{"wal"}));

    ASSERT_TRUE(lease->release().ok);
    EXPECT_TRUE(other.run("SELECT * FROM syncguard_locks_v2").empty());
    EXPECT_EQ(other.run("SELECT fence FROM syncguard_fence_counters_v2"),
              (std::vector<std::string>{"1"}));
}

TEST_F(lock_file_test, locks_that_ended_long_ago_are_erased_and_counters_kept) {
    manual_clock clock;
    const sqlite::options store{.path = path_, .clock = clock.as_wall_clock()};
    for (int i = 0; i < 50; ++i) {
        sqlite::backend(store).acquire("key:" + std::to_string(i), {.ttl = 1s})->detach();
    }
    clock.advance(1h);
    auto lease = sqlite::backend(store).acquire("last");
    sqlite_connection other(path_);
    EXPECT_EQ(other.run("SELECT count(*) FROM syncguard_locks_v2"),
              (std::vector<std::string>{"1"}));
    EXPECT_EQ(other.run("SELECT count(*) FROM syncguard_fence_counters_v2"),
              (std::vector<std::string>{"51"}));
}

TEST_F(lock_file_test, values_of_another_type_cannot_be_stored) {
    ASSERT_TRUE(open().acquire("k"));
    sqlite3* file = nullptr;
    sqlite3_open(path_.c_str(), &file);
    for (const char* sql : {"UPDATE syncguard_fence_counters_v2 SET fence = 'junk'",
                            "INSERT INTO syncguard_locks_v2 VALUES "
                            "('a', 'b', 'c', 0, 'junk', 0, 0, '000000000000001', 'a', NULL)"}) {
        EXPECT_EQ(sqlite3_exec(file, sql, nullptr, nullptr, nullptr), SQLITE_CONSTRAINT) << sql;
    }
    sqlite3_close(file);
}

TEST_F(lock_file_test, rows_that_syncguard_did_not_write_are_reported_by_both_api_forms) {
    auto lease = open().acquire("k", {.ttl = 1h});
    sqlite_connection other(path_);
    other.run("UPDATE syncguard_locks_v2 SET fence = 'x'");
    const auto failure =
        expect_error(error_code::internal, [&] { (void)open().lookup(key_lookup{"k"}); });
    EXPECT_NE(std::string(failure->what()).find(path_.string()), std::string::npos);

    other.run("UPDATE syncguard_locks_v2 SET fence = '000000000000001', user_key = x'ff' || ''");
    EXPECT_THROW((void)open().lookup(key_lookup{"k"}), lock_error);
    auto asynchronous = async_lookup(open(), key_lookup{"k"}, {}, boost::asio::use_future);
    EXPECT_THROW((void)asynchronous.get(), lock_error);
}

TEST_F(lock_file_test, a_file_that_is_not_a_database_is_not_changed) {
    const std::string text(5000, 'x');
    std::ofstream(path_) << text;
    refusal(error_code::invalid_argument);
    EXPECT_EQ(content(), text);
}

TEST_F(lock_file_test, a_database_of_another_program_is_not_changed) {
    {
        sqlite_connection other(path_);
        other.run("CREATE TABLE recipes (name TEXT); INSERT INTO recipes VALUES ('soup')");
    }
    const std::string before = content();
    refusal(error_code::invalid_argument);
    EXPECT_EQ(content(), before);
}

TEST_F(lock_file_test, a_newer_schema_is_refused_and_not_changed) {
    ASSERT_TRUE(open().acquire("k"));
    {
        sqlite_connection other(path_);
        other.run("PRAGMA user_version = 7");
    }
    const std::string before = content();
    EXPECT_NE(refusal(error_code::invalid_argument).find("newer"), std::string::npos);
    EXPECT_EQ(content(), before);
}

TEST_F(lock_file_test, a_folder_that_does_not_exist_is_named) {
    path_ = folder_.path() / "missing" / "locks.db";
    refusal(error_code::service_unavailable);
}

TEST_F(lock_file_test, a_folder_in_place_of_the_file_is_named) {
    std::filesystem::create_directory(path_);
    refusal(error_code::service_unavailable);
}

/// Runs `body` as a user without privileges, for whom file permissions count.
int as_nobody(const std::function<int()>& body) {
    child_process child([&] {
        constexpr uid_t nobody = 65534;
        if (::geteuid() == 0 && (::setgid(nobody) != 0 || ::setuid(nobody) != 0)) return 98;
        return body();
    });
    return child.wait();
}

TEST_F(lock_file_test, a_read_only_folder_is_reported_as_a_permission_problem) {
    std::filesystem::permissions(folder_.path(), std::filesystem::perms(0555));
    EXPECT_EQ(as_nobody([&] {
                  refusal(error_code::auth_failed);
                  return HasFailure() ? 1 : 0;
              }),
              0);
    EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(lock_file_test, a_read_only_file_is_reported_as_a_permission_problem) {
    ASSERT_TRUE(open().acquire("k"));
    std::filesystem::permissions(folder_.path(), std::filesystem::perms(0777));
    std::filesystem::permissions(path_, std::filesystem::perms(0444));
    EXPECT_EQ(as_nobody([&] {
                  refusal(error_code::auth_failed);
                  return HasFailure() ? 1 : 0;
              }),
              0);
}

TEST_F(lock_file_test, a_removed_file_is_created_again) {
    const auto locks = open();
    ASSERT_TRUE(locks.acquire("k"));
    remove_file();
    EXPECT_TRUE(locks.acquire("k"));
    EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(lock_file_test, after_a_replacement_the_new_file_is_used) {
    const auto locks = open();
    ASSERT_TRUE(locks.acquire("warm-up"));
    const auto elsewhere = folder_ / "other.db";
    sqlite::backend({.path = elsewhere}).acquire("k", {.ttl = 1h})->detach();
    remove_file();
    std::filesystem::rename(elsewhere, path_);
    EXPECT_FALSE(locks.acquire("k"));
}

TEST_F(lock_file_test, waiting_for_another_process_ends_at_the_deadline) {
    ASSERT_TRUE(open().acquire("k"));
    sqlite_connection other(path_);
    other.run("BEGIN IMMEDIATE");
    const auto began = steady_clock::now();
    const auto failure =
        expect_error(error_code::network_timeout, [&] { (void)open(80ms).acquire("k"); });
    const auto waited = steady_clock::now() - began;
    EXPECT_GE(waited, 80ms);
    EXPECT_LT(waited, 5s);
    EXPECT_NE(std::string(failure->what()).find(path_.string()), std::string::npos);

    other.run("COMMIT");
    EXPECT_TRUE(open().acquire("k"));
}

TEST_F(lock_file_test, after_a_replacement_during_a_wait_the_new_file_is_used) {
    ASSERT_TRUE(open().acquire("k"));
    const auto elsewhere = folder_ / "other.db";
    sqlite::backend({.path = elsewhere}).acquire("k", {.ttl = 1h})->detach();
    auto other = std::make_unique<sqlite_connection>(path_);
    other->run("BEGIN IMMEDIATE");
    auto waiting = std::async(std::launch::async, [&] { return open(1h).acquire("k").ok(); });
    EXPECT_EQ(waiting.wait_for(50ms), std::future_status::timeout);
    remove_file();
    std::filesystem::rename(elsewhere, path_);
    other->run("COMMIT");
    EXPECT_FALSE(waiting.get());
}

TEST_F(lock_file_test, waiting_for_another_process_ends_when_it_is_done) {
    ASSERT_TRUE(open().acquire("k"));
    sqlite_connection other(path_);
    other.run("BEGIN IMMEDIATE");
    auto waiting = std::async(std::launch::async, [&] { return open(1h).acquire("k").ok(); });
    EXPECT_EQ(waiting.wait_for(30ms), std::future_status::timeout);
    other.run("COMMIT");
    EXPECT_TRUE(waiting.get());
}

TEST_F(lock_file_test, a_stop_request_ends_the_waiting_at_once) {
    ASSERT_TRUE(open().acquire("k"));
    sqlite_connection other(path_);
    other.run("BEGIN IMMEDIATE");
    const auto locks = open(1h);
    std::stop_source stop;
    // The first thread waits for the other process, the second for the first.
    std::vector<std::future<void>> waiting;
    for (int i = 0; i < 2; ++i) {
        waiting.push_back(std::async(std::launch::async, [&] {
            expect_error(error_code::aborted,
                         [&] { (void)locks.acquire("k", {}, stop.get_token()); });
        }));
    }
    EXPECT_EQ(waiting[0].wait_for(30ms), std::future_status::timeout);
    EXPECT_EQ(waiting[1].wait_for(0ms), std::future_status::timeout);
    const auto asked = steady_clock::now();
    stop.request_stop();
    for (auto& waiter : waiting)
        waiter.get();
    EXPECT_LT(steady_clock::now() - asked, 5s);
    other.run("COMMIT");
    EXPECT_FALSE(locks.is_locked("k"));
}

TEST_F(lock_file_test, threads_wait_for_each_other_no_longer_than_their_deadline) {
    ASSERT_TRUE(open().acquire("k"));
    sqlite_connection other(path_);
    other.run("BEGIN IMMEDIATE");
    const auto locks = open(1h);
    std::stop_source stop;
    auto slow = std::async(std::launch::async, [&] {
        expect_error(error_code::aborted, [&] { (void)locks.acquire("k", {}, stop.get_token()); });
    });
    EXPECT_EQ(slow.wait_for(30ms), std::future_status::timeout);
    expect_error(error_code::network_timeout,
                 [&] { (void)locks.acquire("other", {.timeout = 50ms}); });
    stop.request_stop();
    slow.get();
}

TEST_F(lock_file_test, asynchronous_calls_keep_their_deadline_in_the_queue) {
    ASSERT_TRUE(open().acquire("k"));
    sqlite_connection other(path_);
    other.run("BEGIN IMMEDIATE");
    const auto locks = open(1h);
    auto first = async_acquire(locks, "k", {.timeout = 2s}, boost::asio::use_future);
    const auto began = steady_clock::now();
    auto second = async_acquire(locks, "k", {.timeout = 50ms}, boost::asio::use_future);
    expect_error(error_code::network_timeout, [&] { (void)second.get(); });
    EXPECT_LT(steady_clock::now() - began, 1s);
    expect_error(error_code::network_timeout, [&] { (void)first.get(); });
}

TEST_F(lock_file_test, cancelled_asynchronous_calls_end_at_once_in_the_queue) {
    namespace asio = boost::asio;
    ASSERT_TRUE(open().acquire("k"));
    sqlite_connection other(path_);
    other.run("BEGIN IMMEDIATE");
    const auto locks = open(1h);
    asio::io_context io;
    asio::cancellation_signal first;
    asio::cancellation_signal second;
    int aborted = 0;
    for (auto* cancel : {&first, &second}) {
        async_acquire(
            locks, "k", {},
            asio::bind_cancellation_slot(
                cancel->slot(), asio::bind_executor(io, [&](std::exception_ptr failure, auto) {
                    ASSERT_TRUE(failure);
                    expect_error(error_code::aborted, [&] { std::rethrow_exception(failure); });
                    ++aborted;
                })));
    }
    second.emit(asio::cancellation_type::terminal);
    io.run_one_for(10s);
    EXPECT_EQ(aborted, 1);
    first.emit(asio::cancellation_type::terminal);
    io.run_for(10s);
    EXPECT_EQ(aborted, 2);
}

}  // namespace
}  // namespace syncguard::test
