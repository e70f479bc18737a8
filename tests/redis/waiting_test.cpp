/// Waiting for a lock in Redis: which events wake a waiting caller, what waiting costs the server,
/// and waiting without notifications.
#include "redis/on_redis.hpp"
#include "support/eventually.hpp"

#include <syncguard/lock.hpp>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

const std::string lock_key = "syncguard:k";

class waiting_on_redis : public on_redis {
  protected:
    /// Retries so rarely that a test that depends on a retry fails.
    static lock_options hardly_ever_retrying() {
        return {.ttl = 60s,
                .timeout = 10min,
                .retry = {.max_retries = 1000,
                          .retry_delay = 5min,
                          .backoff = backoff::fixed,
                          .jitter = jitter::none}};
    }

    /// How often clients have called the command.
    double calls_of(const std::string& name) {
        const std::string text = command({"INFO", "commandstats"}).text;
        const std::string before = "cmdstat_" + name + ":calls=";
        const auto at = text.find(before);
        return at == std::string::npos ? 0 : std::stod(text.substr(at + before.size()));
    }

    /// Returns once a caller has begun to wait: the server tracks a key for it.
    void wait_for_a_waiter() {
        ASSERT_TRUE(eventually([&] {
            const std::string text = command({"INFO", "stats"}).text;
            return text.find("tracking_total_keys:1\r\n") != std::string::npos;
        }));
    }

    /// Lets a caller wait for a held lock, ends the lock by `let_go`, and expects that the waiting
    /// caller gets it soon.
    template <class LetGo>
    void expect_to_be_woken_by(LetGo let_go) {
        const auto begin = std::chrono::steady_clock::now();
        std::jthread waiting([&] {
            auto lease = acquire_with_retries(open(), "k", hardly_ever_retrying());
            EXPECT_TRUE(lease.valid());
        });
        wait_for_a_waiter();
        let_go();
        waiting.join();
        EXPECT_LT(std::chrono::steady_clock::now() - begin, 2min) << "nobody told";
    }
};

TEST_F(waiting_on_redis, a_release_by_any_client_wakes) {
    const auto id = open().acquire("k", {.ttl = 600s})->detach();
    expect_to_be_woken_by([&] { EXPECT_TRUE(open().release(id.str()).ok); });
}

TEST_F(waiting_on_redis, a_peer_that_deletes_the_key_wakes) {
    (void)open().acquire("k", {.ttl = 600s})->detach();
    expect_to_be_woken_by([&] { command({"DEL", lock_key}); });
}

TEST_F(waiting_on_redis, the_end_of_the_lock_wakes) {
    (void)open().acquire("k", {.ttl = 1s})->detach();
    expect_to_be_woken_by([&] { server_.advance(1s + 1ms); });
}

TEST_F(waiting_on_redis, the_loss_of_all_keys_wakes) {
    (void)open().acquire("k", {.ttl = 600s})->detach();
    expect_to_be_woken_by([&] { command({"FLUSHALL"}); });
}

TEST_F(waiting_on_redis, the_loss_of_the_connection_wakes) {
    (void)open().acquire("k", {.ttl = 600s})->detach();
    expect_to_be_woken_by([&] {
        // In this order no client is notified of the key's deletion.
        redis_connection admin(server_.socket_path());
        admin.command({"MULTI"});
        admin.command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
        admin.command({"DEL", lock_key});
        EXPECT_EQ(admin.command({"EXEC"}).list.size(), 2U);
    });
}

TEST_F(waiting_on_redis, continues_after_a_restart_of_the_server) {
    (void)open().acquire("k", {.ttl = 600s})->detach();
    // The server saves nothing, so the lock is gone.
    expect_to_be_woken_by([&] {
        server_.kill();
        server_.restart();
    });
}

TEST_F(waiting_on_redis, an_extension_wakes_without_a_grant) {
    const auto holder = open();
    auto held = *holder.acquire("k", {.ttl = 600s});
    std::atomic<bool> granted{false};
    std::jthread waiting([&] {
        auto lease = acquire_with_retries(open(), "k", hardly_ever_retrying());
        granted = true;
    });
    wait_for_a_waiter();
    for (int i = 0; i < 3; ++i)
        EXPECT_TRUE(held.extend({.ttl = 600s}).ok);
    wait_for_a_waiter();
    EXPECT_FALSE(granted);
    held.release();
    EXPECT_TRUE(eventually([&] { return granted.load(); }));
}

TEST_F(waiting_on_redis, only_one_of_many_waiting_threads_asks_the_server) {
    constexpr int threads = 100;
    const auto locks = open();
    auto held = *locks.acquire("k", {.ttl = 600s});
    double before = 0;
    {
        std::vector<std::jthread> crowd;
        for (int i = 0; i < threads; ++i) {
            crowd.emplace_back([&] {
                EXPECT_TRUE(acquire_with_retries(locks, "k", hardly_ever_retrying()).release().ok);
            });
        }
        wait_for_a_waiter();
        before = calls_of("evalsha");
        held.release();
    }
    // For each thread: a release, an attempt that finds the lock taken, and one that gets it. Some
    // threads are also woken by notifications meant for the thread before them.
    EXPECT_LE(calls_of("evalsha") - before, 5 * threads);
}

TEST_F(waiting_on_redis, only_waiting_clients_ask_the_server_for_notifications) {
    const auto locks = open();
    for (int i = 0; i < 10; ++i) {
        auto lease = locks.acquire("k");
        EXPECT_FALSE(locks.acquire("k"));
    }
    EXPECT_EQ(calls_of("client|caching"), 0);
    EXPECT_EQ(calls_of("client|tracking"), 0);
}

TEST(waiting_on_a_redis_whose_tracking_table_is_full, asks_at_a_bounded_rate) {
    const redis_server server({.arguments = {"--tracking-table-max-keys", "1"}});
    const redis::backend locks({.port = server.port()});
    const auto calls_of = [&](const std::string& name) {
        const std::string text = server.command({"INFO", "commandstats"}).text;
        const std::string before = "cmdstat_" + name + ":calls=";
        const auto at = text.find(before);
        return at == std::string::npos ? 0 : std::stol(text.substr(at + before.size()));
    };
    constexpr std::size_t waiters = 20;
    std::vector<lock_id> held;
    for (std::size_t i = 0; i < waiters; ++i)
        held.push_back(locks.acquire("k:" + std::to_string(i), {.ttl = 600s})->detach());
    {
        std::vector<std::jthread> crowd;
        for (std::size_t i = 0; i < waiters; ++i) {
            crowd.emplace_back([&, i] {
                const auto lease = acquire_with_retries(locks, "k:" + std::to_string(i),
                                                        {.ttl = 60s, .timeout = 60s});
                EXPECT_TRUE(lease.valid());
            });
        }
        ASSERT_TRUE(eventually([&] { return calls_of("exists") >= static_cast<long>(waiters); }));
        const auto until = std::chrono::steady_clock::now() + 3s;
        ASSERT_TRUE(eventually([&] { return std::chrono::steady_clock::now() > until; }));
        EXPECT_LT(calls_of("exists"), 2'000);
        EXPECT_LT(calls_of("evalsha"), 4'000);
        const auto begin = std::chrono::steady_clock::now();
        for (const auto& each : held)
            EXPECT_TRUE(locks.release(each).ok);
        crowd.clear();
        EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
    }
}

TEST_F(waiting_on_redis, without_permission_for_tracking_waits_by_retrying) {
    command({"ACL", "SETUSER", "locker", "on", ">sesame", "~*", "+@all", "-client|tracking",
             "-client|caching"});
    const auto locks = open({.username = "locker", .password = "sesame"});
    auto held = *open().acquire("k", {.ttl = 600s});
    std::jthread waiting([&] {
        auto options = hardly_ever_retrying();
        options.retry.retry_delay = 20ms;
        EXPECT_TRUE(acquire_with_retries(locks, "k", options).release().ok);
    });
    ASSERT_TRUE(eventually([&] { return calls_of("evalsha") > 3; }));
    held.release();
}

}  // namespace
}  // namespace syncguard::test
