/// Many callers of one lock file: the order in which they are served, and who waits for whom.
#include "sqlite/call_queue.hpp"
#include "sqlite/faulty_vfs.hpp"
#include "sqlite/interruptible_mutex.hpp"
#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"
#include "support/loss_recorder.hpp"
#include "support/scripted_engine.hpp"
#include "support/sqlite_connection.hpp"
#include "support/temporary_folder.hpp"

#include <syncguard/async.hpp>
#include <syncguard/lock.hpp>
#include <syncguard/sqlite.hpp>

#include <boost/asio/use_future.hpp>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

std::string own_key(int i) {
    return "other:" + std::to_string(i);
}

/// Returns when this process has at least `count` other threads and all of them sleep.
void await_sleeping_threads(std::size_t count) {
    const auto all_sleep = [count] {
        std::size_t asleep = 0;
        std::size_t awake = 0;
        for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
            std::ifstream stat(task.path() / "stat");
            std::string text;
            std::getline(stat, text);
            const auto after_name = text.rfind(')');
            if (after_name == std::string::npos) continue;
            ++(text.substr(after_name + 2, 1) == "S" ? asleep : awake);
        }
        return asleep >= count && awake <= 1;
    };
    ASSERT_TRUE(eventually(all_sleep));
}

class sqlite_contention : public testing::Test {
  protected:
    [[nodiscard]] sqlite::backend open(milliseconds timeout = 1min) const {
        return sqlite::backend({.path = path_}, {.operation_timeout = timeout});
    }

    /// The descriptor of this process's latest file watch; 0 if it has none.
    [[nodiscard]] static int latest_watch() {
        int latest = 0;
        for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
            std::ifstream info(entry.path());
            for (std::string line; std::getline(info, line);) {
                if (!line.starts_with("inotify wd:")) continue;
                latest = std::max(latest, std::stoi(line.substr(line.find(':') + 1), nullptr, 16));
            }
        }
        return latest;
    }

    temporary_folder folder_;
    std::filesystem::path path_ = folder_ / "locks.db";
};

TEST_F(sqlite_contention, an_extension_overtakes_waiting_calls) {
    constexpr std::size_t others = 40;
    const auto locks = open();
    auto lease = locks.acquire("k", {.ttl = 1h});
    std::atomic<std::size_t> granted{0};
    std::size_t granted_before = 0;
    {
        sqlite_connection other_process(path_);
        other_process.run("BEGIN IMMEDIATE");
        std::vector<std::jthread> crowd;
        for (std::size_t i = 0; i < others; ++i) {
            crowd.emplace_back([&, i] {
                if (auto own = locks.acquire(own_key(static_cast<int>(i)))) {
                    ++granted;
                    own->detach();
                }
            });
        }
        await_sleeping_threads(others);
        std::jthread extending([&] {
            EXPECT_TRUE(lease->extend({.ttl = 1h}).ok);
            granted_before = granted;
        });
        await_sleeping_threads(others + 1);
        other_process.run("COMMIT");
    }
    EXPECT_EQ(granted, others);
    // Some calls may be counted between the extension and its answer.
    EXPECT_LT(granted_before, others / 2);
}

TEST_F(sqlite_contention, an_asynchronous_extension_overtakes_queued_calls) {
    constexpr std::size_t others = 40;
    const auto locks = open();
    auto lease = locks.acquire("k", {.ttl = 1h});
    sqlite_connection other_process(path_);
    other_process.run("BEGIN IMMEDIATE");
    std::vector<std::future<acquire_result<sqlite::capabilities>>> crowd;
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < others; ++i)
        keys.push_back(own_key(static_cast<int>(i)));
    for (const auto& key : keys)
        crowd.push_back(async_acquire(locks, key, {.ttl = 1h}, boost::asio::use_future));
    auto extended = async_extend(*lease, {.ttl = 1h}, boost::asio::use_future);
    other_process.run("COMMIT");
    EXPECT_TRUE(extended.get().ok);
    EXPECT_EQ(crowd.back().wait_for(0s), std::future_status::timeout);
    for (auto& each : crowd)
        each.get()->detach();
}

TEST_F(sqlite_contention, an_asynchronous_release_overtakes_queued_calls) {
    constexpr std::size_t others = 40;
    const auto locks = open();
    auto lease = locks.acquire("k", {.ttl = 1h});
    sqlite_connection other_process(path_);
    other_process.run("BEGIN IMMEDIATE");
    std::vector<std::future<acquire_result<sqlite::capabilities>>> crowd;
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < others; ++i)
        keys.push_back(own_key(static_cast<int>(i)));
    for (const auto& key : keys)
        crowd.push_back(async_acquire(locks, key, {.ttl = 1h}, boost::asio::use_future));
    auto released = async_release(*lease, {}, boost::asio::use_future);
    other_process.run("COMMIT");
    EXPECT_TRUE(released.get().ok);
    EXPECT_EQ(crowd.back().wait_for(0s), std::future_status::timeout);
    for (auto& each : crowd)
        each.get()->detach();
}

TEST(sqlite_call_queue, takes_and_serves_releases_although_it_is_full_of_other_calls) {
    constexpr int capacity = 100'000;
    std::promise<void> go_on;
    const auto may_go_on = go_on.get_future().share();
    std::atomic<int> acquisitions{0};
    scripted_engine target([&](const request& req, const call_limits&) {
        if (std::holds_alternative<release_request>(req)) return outcome::done();
        ++acquisitions;
        may_go_on.wait();
        return outcome::locked();
    });
    const auto id = lock_id::generate();
    const call_limits patient{.deadline = steady_clock::now() + 1h, .stop = {}};
    std::promise<outcome> released;
    std::promise<void> refused;
    {
        sqlite::call_queue queue;
        const auto acquire = [&](completion handler) {
            queue.post(target, acquire_request{"k", id, 1h}, patient, std::move(handler));
        };
        acquire([](std::exception_ptr, const outcome&) {});
        ASSERT_TRUE(eventually([&] { return acquisitions == 1; }));
        for (int i = 0; i < capacity; ++i)
            acquire([](std::exception_ptr, const outcome&) {});
        acquire([&](std::exception_ptr failure, const outcome&) {
            refused.set_exception(std::move(failure));
        });
        expect_error(error_code::rate_limited, [&] { refused.get_future().get(); });
        queue.post(target, release_request{id, "k"}, patient,
                   [&](std::exception_ptr failure, const outcome& answer) {
                       if (failure) {
                           released.set_exception(std::move(failure));
                       } else {
                           released.set_value(answer);
                       }
                   });
        auto answer = released.get_future();
        EXPECT_EQ(answer.wait_for(20s), std::future_status::ready);
        go_on.set_value();
        EXPECT_TRUE(answer.get().ok);
    }
    EXPECT_EQ(acquisitions, capacity + 1);
}

TEST_F(sqlite_contention, a_kept_lease_outlives_200_threads_with_other_keys) {
    const auto locks = open();
    loss_recorder losses;
    auto lease = locks.acquire("k", {.ttl = 1s});
    lease->on_lost(losses.handler());
    lease->keep_alive({.ttl = 1s});
    {
        std::atomic<bool> ended{false};
        std::vector<std::jthread> crowd;
        for (int i = 0; i < 200; ++i) {
            crowd.emplace_back([&, i] {
                while (!ended)
                    (void)locks.acquire(own_key(i));
            });
        }
        EXPECT_FALSE(eventually([&] { return losses.any(); }, 5s))
            << text_of(losses.first().event.cause);
        ended = true;
    }
    EXPECT_TRUE(lease->release().ok);
}

/// While it exists, the handler of SIGUSR1 does not return.
class endless_signal_handler {
  public:
    endless_signal_handler() {
        may_return_ = false;
        struct sigaction action {};
        action.sa_handler = [](int) {
            ++running_;
            while (!may_return_)
                ::usleep(1'000);
            --running_;
        };
        ::sigaction(SIGUSR1, &action, &former_);
    }
    endless_signal_handler(const endless_signal_handler&) = delete;
    endless_signal_handler& operator=(const endless_signal_handler&) = delete;
    ~endless_signal_handler() {
        may_return_ = true;
        while (running_ > 0)
            std::this_thread::yield();
        ::sigaction(SIGUSR1, &former_, nullptr);
    }

    [[nodiscard]] static int running() { return running_; }

  private:
    static inline std::atomic<bool> may_return_{false};
    static inline std::atomic<int> running_{0};
    struct sigaction former_ {};
};

/// Sends a signal to the thread when it next writes to a file.
void send_in_next_write(pthread_t thread, int signal) {
    faulty_vfs::act_before(1, [thread, signal] {
        if (::pthread_equal(::pthread_self(), thread) != 0) {
            ::pthread_kill(thread, signal);
        } else {
            send_in_next_write(thread, signal);
        }
    });
}

template <class Lease>
bool stays_valid(const Lease& lease, milliseconds time) {
    const auto until = steady_clock::now() + time;
    (void)eventually([&] { return steady_clock::now() >= until || !lease.valid(); }, time + 20s);
    return lease.valid();
}

TEST_F(sqlite_contention, a_kept_lease_outlives_a_signal_handler_of_a_thread_that_writes) {
    const faulty_vfs faults;
    const auto locks = open();
    loss_recorder losses;
    auto lease = locks.acquire("kept", {.ttl = 1s});
    ASSERT_TRUE(lease);
    lease->on_lost(losses.handler());
    lease->keep_alive();
    {
        std::jthread writing;
        const endless_signal_handler handler;
        writing = std::jthread([&] {
            send_in_next_write(::pthread_self(), SIGUSR1);
            EXPECT_TRUE(locks.acquire("other"));
        });
        ASSERT_TRUE(eventually([&] { return handler.running() == 1; }));
        EXPECT_TRUE(stays_valid(*lease, 2s));
    }
    EXPECT_FALSE(losses.any());
}

TEST_F(sqlite_contention, a_kept_lease_outlives_signal_handlers_of_threads_that_wait_for_the_file) {
    const auto locks = open();
    loss_recorder losses;
    auto lease = locks.acquire("kept", {.ttl = 3s});
    ASSERT_TRUE(lease);
    lease->on_lost(losses.handler());
    lease->keep_alive();
    {
        std::array<std::jthread, 2> waiting;
        const endless_signal_handler handler;
        sqlite_connection other_process(path_);
        other_process.run("BEGIN IMMEDIATE");
        for (std::size_t i = 0; i < waiting.size(); ++i) {
            waiting.at(i) =
                std::jthread([&, i] { EXPECT_TRUE(locks.acquire(own_key(static_cast<int>(i)))); });
        }
        await_sleeping_threads(waiting.size());
        for (auto& each : waiting)
            ::pthread_kill(each.native_handle(), SIGUSR1);
        // The signal handlers run although the file is still locked.
        EXPECT_TRUE(eventually([&] { return handler.running() == 2; }));
        other_process.run("COMMIT");
        EXPECT_TRUE(stays_valid(*lease, 4s));
    }
    EXPECT_FALSE(losses.any());
}

TEST_F(sqlite_contention, a_kept_lease_outlives_another_process_that_writes_without_pause) {
    const auto locks = open();
    loss_recorder losses;
    auto lease = locks.acquire("k", {.ttl = 1s});
    lease->on_lost(losses.handler());
    // A single thread: with several threads, the file would be free while the next one wakes up.
    const child_process writer([&] {
        const auto own = open();
        while (true)
            (void)own.acquire("other");
        return 0;
    });
    lease->keep_alive({.ttl = 1s});
    EXPECT_FALSE(eventually([&] { return losses.any(); }, 8s))
        << text_of(losses.first().event.cause);
    writer.kill(SIGKILL);
    EXPECT_TRUE(lease->release().ok);
}

TEST_F(sqlite_contention, lookups_are_answered_while_others_wait_for_another_process) {
    const auto locks = open();
    locks.acquire("held", {.ttl = 1h})->detach();
    sqlite_connection other_process(path_);
    other_process.run("BEGIN IMMEDIATE");
    std::stop_source stop;
    std::jthread waiting([&] {
        expect_error(error_code::aborted, [&] { (void)locks.acquire("k", {}, stop.get_token()); });
    });
    await_sleeping_threads(1);
    EXPECT_TRUE(locks.is_locked("held", {.timeout = 5s}));
    EXPECT_TRUE(locks.lookup(key_lookup{"held"}, {.timeout = 5s}));
    EXPECT_FALSE(locks.acquire("held", {.timeout = 5s}));
    stop.request_stop();
}

TEST_F(sqlite_contention, an_extension_that_failed_limits_the_lease_only_until_the_next_one) {
    auto lease = open(100ms).acquire("k", {.ttl = 60s});
    ASSERT_TRUE(lease);
    {
        sqlite_connection other(path_);
        other.run("BEGIN IMMEDIATE");
        expect_error(error_code::network_timeout, [&] { (void)lease->extend({.ttl = 20s}); });
    }
    EXPECT_LE(lease->remaining(), 20s);
    EXPECT_TRUE(lease->extend({.ttl = 60s}).ok);
    EXPECT_GT(lease->remaining(), 50s);
}

TEST_F(sqlite_contention, a_fork_does_not_wait_for_a_call_that_waits_for_another_process) {
    const auto locks = open();
    locks.acquire("held", {.ttl = 1h})->detach();
    sqlite_connection other_process(path_);
    other_process.run("BEGIN IMMEDIATE");
    std::stop_source stop;
    std::jthread waiting([&] {
        expect_error(error_code::aborted, [&] { (void)locks.acquire("k", {}, stop.get_token()); });
    });
    await_sleeping_threads(1);
    auto forked = std::async(std::launch::async, [&] {
        child_process child([&] { return locks.is_locked("held") ? 0 : 1; });
        return child.wait();
    });
    auto opened = std::async(std::launch::async, [&] { (void)open(); });
    EXPECT_EQ(forked.wait_for(20s), std::future_status::ready);
    EXPECT_EQ(opened.wait_for(20s), std::future_status::ready);
    stop.request_stop();
    EXPECT_EQ(forked.get(), 0);
}

TEST_F(sqlite_contention, sweeps_erase_few_rows_at_a_time_and_eventually_all) {
    const auto locks = open();
    (void)locks.acquire("first");
    sqlite_connection other_process(path_);
    const auto count = [&] {
        return std::stoi(other_process.run("SELECT count(*) FROM syncguard_locks_v2").front());
    };
    // Half of the locks are of this boot and expired long ago; half are of another boot that lasted
    // longer.
    constexpr int ended = 1000;
    other_process.run(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " +
        std::to_string(ended) +
        ") INSERT INTO syncguard_locks_v2 SELECT 'ended:' || i, printf('%022d', i), "
        "iif(i % 2, '', 'another boot'), -2, iif(i % 2, -1000000, 1000000000000), 0, 0, "
        "'000000000000001', 'k', NULL FROM n");
    ASSERT_EQ(count(), ended);
    const auto fresh = open();
    int before = ended;
    int largest_sweep = 0;
    for (int i = 0; i < 100 * ended && before > 0; ++i) {
        (void)fresh.acquire("k");
        const int now = count();
        largest_sweep = std::max(largest_sweep, before - now);
        before = now;
    }
    EXPECT_EQ(before, 0);
    EXPECT_GT(largest_sweep, 0);
    EXPECT_LE(largest_sweep, 100);
}

TEST_F(sqlite_contention, a_waiter_is_notified_of_a_release_in_a_folder_that_replaced_its_own) {
    const auto folder = folder_ / "state";
    const auto other_folder = folder_ / "new";
    std::filesystem::create_directory(folder);
    std::filesystem::create_directory(other_folder);
    const auto id = sqlite::backend({.path = other_folder / "locks.db"}).acquire("k")->detach();
    path_ = folder / "locks.db";
    const auto locks = open();
    auto held = open().acquire("k");
    std::promise<fence> granted;
    std::jthread waiting([&](const std::stop_token& stop) {
        const lock_options hardly_ever_retrying{.ttl = 1min,
                                                .timeout = 10min,
                                                .retry = {.max_retries = 1000,
                                                          .retry_delay = 5min,
                                                          .backoff = backoff::fixed,
                                                          .jitter = jitter::none},
                                                .stop = stop};
        try {
            granted.set_value(acquire_with_retries(locks, "k", hardly_ever_retrying).fence());
        } catch (const lock_error&) {
            granted.set_exception(std::current_exception());
        }
    });
    ASSERT_TRUE(eventually([] { return latest_watch() > 0; }));
    const int watch = latest_watch();

    std::filesystem::rename(folder, folder_ / "old");
    std::filesystem::rename(other_folder, folder);
    // Release only after the waiter has noticed the new folder. Otherwise the test would only show
    // that the waiter polls from time to time.
    ASSERT_TRUE(eventually([&] { return latest_watch() > watch; }));
    EXPECT_TRUE(open().release(id.str()).ok);
    auto next = granted.get_future();
    ASSERT_EQ(next.wait_for(20s), std::future_status::ready);
    EXPECT_EQ(next.get(), fence::from_counter(2));
}

class mutex_order : public testing::Test {
  protected:
    /// Starts a thread that locks the mutex, and returns when that thread waits for it.
    void start(sqlite::precedence rank, const char* name) {
        threads_.emplace_back([this, rank, name] {
            const sqlite::interruptible_lock lock(mutex_, limits_, rank);
            entered_.emplace_back(name);
        });
        await_sleeping_threads(threads_.size());
    }

    const call_limits limits_{.deadline = steady_clock::now() + 1min, .stop = {}};
    sqlite::interruptible_mutex mutex_;
    std::vector<std::string> entered_;
    std::vector<std::jthread> threads_;
};

TEST_F(mutex_order, is_by_rank_and_then_by_arrival) {
    using enum sqlite::precedence;
    {
        const sqlite::interruptible_lock lock(mutex_, limits_, other);
        start(other, "other 1");
        start(release, "release 1");
        start(other, "other 2");
        start(extension, "extension 1");
        start(release, "release 2");
        start(extension, "extension 2");
        start(other, "other 3");
    }
    threads_.clear();
    EXPECT_EQ(entered_, (std::vector<std::string>{"extension 1", "extension 2", "release 1",
                                                  "release 2", "other 1", "other 2", "other 3"}));
}

TEST_F(mutex_order, a_caller_that_yielded_to_higher_ranks_comes_before_its_own_rank) {
    using enum sqlite::precedence;
    {
        sqlite::interruptible_lock lock(mutex_, limits_, release);
        lock.yield_to_higher_ranks(limits_);
        start(release, "release");
        start(other, "other");
        start(extension, "extension");
        lock.yield_to_higher_ranks(limits_);
        entered_.emplace_back("this one");
    }
    threads_.clear();
    EXPECT_EQ(entered_, (std::vector<std::string>{"extension", "this one", "release", "other"}));
}

/// The number of open file descriptors of this process.
std::ptrdiff_t open_descriptors() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
}

class failed_opens : public sqlite_contention {
  protected:
    void expect_no_leak() const {
        const auto fail = [&] { EXPECT_THROW((void)open(1ms).acquire("k"), lock_error); };
        fail();
        const auto before = open_descriptors();
        for (int i = 0; i < 1000; ++i)
            fail();
        EXPECT_EQ(open_descriptors(), before);
    }
};

TEST_F(failed_opens, of_a_file_that_is_no_database_leave_no_descriptor_open) {
    std::ofstream(path_) << std::string(5000, 'x');
    expect_no_leak();
}

TEST_F(failed_opens, of_a_file_in_a_missing_folder_leave_no_descriptor_open) {
    path_ = folder_.path() / "missing" / "locks.db";
    expect_no_leak();
}

TEST_F(failed_opens,
       of_a_file_that_another_program_has_locked_exclusively_leave_no_descriptor_open) {
    sqlite_connection other(path_);
    other.run("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; CREATE TABLE t (c)");
    expect_no_leak();
}

TEST_F(failed_opens, while_removed_side_files_are_in_use_leave_no_descriptor_open) {
    const auto locks = open();
    (void)locks.acquire("k");
    std::filesystem::remove(path_.string() + "-shm");
    expect_no_leak();
}

TEST_F(failed_opens, by_waiters_leave_no_descriptor_open) {
    path_ = folder_.path() / "missing" / "locks.db";
    const auto locks = open(1ms);
    const auto fail = [&] {
        EXPECT_THROW((void)acquire_with_retries(locks, "k", {.timeout = 1ms}), lock_error);
    };
    fail();
    const auto before = open_descriptors();
    for (int i = 0; i < 1000; ++i)
        fail();
    EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace syncguard::test
