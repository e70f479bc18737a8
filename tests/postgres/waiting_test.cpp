/// Waiting for a lock in PostgreSQL: which events wake a waiting caller, what waiting leaves on the
/// server, and waiting without notifications.
#include "postgres/on_postgres.hpp"
#include "support/eventually.hpp"
#include "support/transaction_pooler.hpp"

#include <syncguard/lock.hpp>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

/// Advisory locks of two numbers, unlike those by which peers acquire.
const std::string interest_markers =
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted";
const std::string listeners =
    "FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted";

class waiting_on_postgres : public on_postgres {
  protected:
    static lock_options retrying_every(milliseconds pause) {
        return {.ttl = 60s,
                .timeout = 10min,
                .retry = {.max_retries = 1000,
                          .retry_delay = pause,
                          .backoff = backoff::fixed,
                          .jitter = jitter::none}};
    }
    /// Retries so rarely that a test that depends on a retry fails.
    static lock_options hardly_ever_retrying() { return retrying_every(5min); }

    static bool has_waiter() { return server().value(interest_markers) == "1"; }

    /// Lets a caller wait for a held lock, ends the lock by `let_go`, and expects that the waiting
    /// caller gets it soon.
    template <class LetGo>
    static void expect_to_be_woken_by(LetGo let_go) {
        const auto begin = std::chrono::steady_clock::now();
        std::jthread waiting([&] {
            auto lease = acquire_with_retries(open(), "k", hardly_ever_retrying());
            EXPECT_TRUE(lease.valid());
        });
        EXPECT_TRUE(eventually(has_waiter));
        let_go();
        waiting.join();
        EXPECT_LT(std::chrono::steady_clock::now() - begin, 2min) << "nobody told";
    }
};

TEST_F(waiting_on_postgres, a_release_by_any_client_wakes) {
    const auto id = take(open(), "k", 600s);
    expect_to_be_woken_by([&] { EXPECT_TRUE(open().release(id.str()).ok); });
}

TEST_F(waiting_on_postgres, the_end_of_the_lock_wakes) {
    take(open(), "k", 1s);
    expect_to_be_woken_by([&] { server().advance(1s + time_tolerance + 1ms); });
}

TEST_F(waiting_on_postgres, an_extension_that_shortens_wakes) {
    const auto id = take(open(), "k", 600s);
    expect_to_be_woken_by([&] {
        EXPECT_TRUE(open().extend(id, {.ttl = 1s}).ok);
        server().advance(1s + time_tolerance + 1ms);
    });
}

TEST_F(waiting_on_postgres, an_unavailable_interest_marker_does_not_affect_other_keys) {
    auto other = server().connect();
    other.run("SELECT pg_advisory_lock(1937337955, hashtext('another'))");
    const auto locks = open();
    const auto another = take(locks, "another", 600s);
    const auto id = take(locks, "k", 600s);
    const auto begin = std::chrono::steady_clock::now();
    const auto granted = [&](const char* key) {
        EXPECT_TRUE(acquire_with_retries(locks, key, hardly_ever_retrying()).valid()) << key;
    };
    std::jthread waiting_in_vain([&] { granted("another"); });
    EXPECT_TRUE(eventually([&] {
        return server().value(
                   "SELECT count(*) FROM pg_stat_activity "
                   "WHERE query LIKE '%advisory_lock_shared%' "
                   "AND pid <> pg_backend_pid()") == "1";
    }));
    std::jthread waiting([&] { granted("k"); });
    // One of the two belongs to the other session.
    EXPECT_TRUE(eventually([] { return server().value(interest_markers) == "2"; }));
    EXPECT_TRUE(open().release(id).ok);
    waiting.join();
    EXPECT_TRUE(eventually([] { return server().value(interest_markers) == "1"; }));
    other.run("SELECT pg_advisory_unlock(1937337955, hashtext('another'))");
    EXPECT_TRUE(eventually(has_waiter));
    EXPECT_TRUE(open().release(another).ok);
    waiting_in_vain.join();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 2min) << "nobody told";
}

TEST_F(waiting_on_postgres, a_release_wakes_even_if_the_interest_marker_of_its_key_is_unavailable) {
    auto other = server().connect();
    other.run("SELECT pg_advisory_lock(1937337955, hashtext('k'))");
    const auto id = take(open(), "k", 600s);
    auto options = hardly_ever_retrying();
    options.timeout = 20s;
    std::jthread waiting([&] {
        const auto locks = open({.connection = server().url() + "&application_name=without_flag"});
        EXPECT_NO_THROW(EXPECT_TRUE(acquire_with_retries(locks, "k", options).valid()));
    });
    // The transaction that could not get the interest marker has ended.
    EXPECT_TRUE(eventually([] {
        return server().value(
                   "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle' "
                   "AND application_name = 'without_flag' "
                   "AND query LIKE '%advisory_lock_shared%'") == "1";
    }));
    EXPECT_TRUE(open().release(id).ok);
    waiting.join();
    other.run("SELECT pg_advisory_unlock_all()");
}

TEST_F(waiting_on_postgres, waits_for_many_keys_take_few_of_the_servers_locks) {
    constexpr int keys = 80;
    const auto locks = open();
    std::vector<lock_id> held;
    for (int i = 0; i < keys; ++i)
        held.push_back(take(locks, std::to_string(i), 600s));
    std::atomic<int> granted{0};
    std::vector<std::jthread> crowd;
    for (int i = 0; i < keys; ++i) {
        crowd.emplace_back([&, i] {
            acquire_with_retries(locks, std::to_string(i), retrying_every(20ms)).release();
            ++granted;
        });
    }
    EXPECT_TRUE(eventually([] { return server().value(interest_markers) == "32"; }));
    for (const auto& each : held)
        EXPECT_TRUE(locks.release(each).ok);
    EXPECT_TRUE(eventually([&] { return granted == keys; }));
}

/// A server whose table of locks has little room, and a client that waits there for many keys.
class waiting_on_a_small_server : public waiting_on_postgres {
  protected:
    static constexpr int keys = 20;

    waiting_on_a_small_server() {
        for (int i = 0; i < keys; ++i)
            held_.push_back(take(locks_, std::to_string(i), 600s));
    }
    /// Lets a thread wait for each key, until the key is released or stop is requested.
    [[nodiscard]] std::vector<std::jthread> wait_for_all(const lock_options& options) const {
        std::vector<std::jthread> crowd;
        for (int i = 0; i < keys; ++i) {
            crowd.emplace_back([this, i, options] {
                try {
                    acquire_with_retries(locks_, std::to_string(i), options).release();
                } catch (const lock_error& failure) {
                    EXPECT_EQ(failure.code(), error_code::aborted) << failure.what();
                }
            });
        }
        EXPECT_TRUE(
            eventually([&] { return small_.value(interest_markers) == std::to_string(keys); }));
        return crowd;
    }
    void fill_table() {
        try {
            greedy_.run("SELECT pg_advisory_lock(1, i) FROM generate_series(1, 100000) AS i");
            ADD_FAILURE() << "the table has room for more";
        } catch (const postgres_failure& full) {
            EXPECT_EQ(full.sqlstate, "53200");
        }
    }

    const postgres_server small_{{.settings = {"max_locks_per_transaction=10", "max_connections=8",
                                               "max_wal_senders=0", "max_worker_processes=0"}}};
    const postgres::backend locks_{{.connection = small_.url(), .pool_size = 2}};
    std::vector<lock_id> held_;
    postgres_connection greedy_ = small_.connect();
};

TEST_F(waiting_on_a_small_server, a_full_table_of_locks_delays_neither_holders_nor_waiters) {
    const auto crowd = wait_for_all(retrying_every(200ms));
    fill_table();
    EXPECT_NO_THROW(EXPECT_TRUE(locks_.extend(held_.back()).ok));
    EXPECT_NO_THROW(EXPECT_TRUE(locks_.release(held_.back()).ok));
    greedy_.run("SELECT pg_advisory_unlock_all()");
    for (const auto& each : held_)
        (void)locks_.release(each);
}

TEST_F(waiting_on_a_small_server, interest_markers_are_returned_to_a_full_table_of_locks) {
    std::stop_source stop;
    auto options = hardly_ever_retrying();
    options.stop = stop.get_token();
    const auto crowd = wait_for_all(options);
    fill_table();
    EXPECT_NO_THROW(EXPECT_TRUE(locks_.extend(held_.back()).ok));
    EXPECT_NO_THROW(EXPECT_TRUE(locks_.acquire("new")));
    // The session that fills the table counts the markers of others.
    const auto others = interest_markers + " AND pid <> pg_backend_pid()";
    EXPECT_NO_THROW(EXPECT_TRUE(eventually([&] { return greedy_.value(others) == "0"; })));
    stop.request_stop();
}

/// A server that refuses statements that use its shared memory.
class waiting_on_a_short_server : public waiting_on_postgres {
  protected:
    static void refuse(const std::string& function, const std::string& sqlstate) {
        server().run(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "IF current_query() LIKE '%" +
            function + "%' THEN RAISE EXCEPTION 'short' USING ERRCODE = '" + sqlstate +
            "'; END IF; RETURN NULL; END $$; "
            "CREATE TRIGGER refusing AFTER UPDATE OR DELETE ON syncguard_locks "
            "FOR EACH ROW EXECUTE FUNCTION refuse()");
    }
    ~waiting_on_a_short_server() override {
        server().run("DROP TRIGGER refusing ON syncguard_locks; DROP FUNCTION refuse");
    }
};

TEST_F(waiting_on_a_short_server, a_full_queue_of_notifications_does_not_prevent_releases) {
    const auto locks = open();
    const auto id = take(locks, "k");
    refuse("pg_notify", "54000");
    EXPECT_TRUE(locks.extend(id).ok);
    EXPECT_TRUE(locks.release(id).ok);
}

TEST_F(waiting_on_a_short_server, a_full_table_of_locks_does_not_prevent_extensions_and_releases) {
    const auto locks = open();
    const auto id = take(locks, "k");
    refuse("pg_try_advisory", "53200");
    EXPECT_TRUE(locks.extend(id).ok);
    EXPECT_TRUE(locks.release(id).ok);
}

TEST_F(waiting_on_postgres, the_loss_of_the_connection_wakes) {
    take(open(), "k", 600s);
    expect_to_be_woken_by([&] {
        // In this order no client is notified of the row's deletion.
        server().run("DELETE FROM syncguard_locks");
        EXPECT_EQ(server().value("SELECT count(pg_terminate_backend(pid)) " + listeners), "1");
    });
}

TEST_F(waiting_on_postgres, after_the_loss_of_the_connection_a_waiter_is_notified_again) {
    const auto id = take(open(), "k", 600s);
    expect_to_be_woken_by([&] {
        const auto first = server().value("SELECT pid " + listeners);
        server().run("SELECT pg_terminate_backend(" + first + ")");
        EXPECT_TRUE(eventually([&] {
            return server().value("SELECT count(*) " + listeners + " AND pid <> " + first) == "1" &&
                   has_waiter();
        }));
        EXPECT_TRUE(open().release(id.str()).ok);
    });
}

TEST_F(waiting_on_postgres, a_release_without_notification_is_found_by_the_next_retry) {
    take(open(), "k", 600s);
    std::jthread waiting(
        [&] { EXPECT_TRUE(acquire_with_retries(open(), "k", retrying_every(50ms)).valid()); });
    EXPECT_TRUE(eventually(has_waiter));
    server().run("DELETE FROM syncguard_locks");
}

TEST_F(waiting_on_postgres, a_release_notifies_only_if_a_client_waits) {
    auto ear = server().connect();
    ear.run("LISTEN syncguard");
    const auto heard = [&] {
        // The answer to a query arrives after notifications that were committed before it.
        ear.run("SELECT 1");
        int count = 0;
        while (PGnotify* const news = PQnotifies(ear.native())) {
            EXPECT_EQ(news->extra, server().value("SELECT hashtext('k')"))
                << "any role may listen: a key is not for all to see";
            PQfreemem(news);
            ++count;
        }
        return count;
    };
    EXPECT_TRUE(open().release(take(open(), "k").str()).ok);
    EXPECT_EQ(heard(), 0);
    auto held = *open().acquire("k", {.ttl = 600s});
    expect_to_be_woken_by([&] {
        EXPECT_EQ(heard(), 0);
        held.release();
    });
    // The former waiter notifies, too: its interest marker still exists when it releases.
    EXPECT_GE(heard(), 1);
}

TEST_F(waiting_on_postgres, leaves_no_interest_marker_even_if_the_client_continues_idle) {
    const auto locks = open();
    const auto id = take(locks, "k", 600s);
    std::jthread releasing([&] {
        EXPECT_TRUE(eventually(has_waiter));
        EXPECT_TRUE(open().release(id.str()).ok);
    });
    auto lease = acquire_with_retries(locks, "k", hardly_ever_retrying());
    EXPECT_TRUE(eventually([] { return server().value(interest_markers) == "0"; }));
    // The client no longer listens, either.
    EXPECT_EQ(server().value("SELECT count(*) FROM pg_stat_activity "
                             "WHERE query = 'UNLISTEN syncguard'"),
              "1");
    EXPECT_TRUE(lease.release().ok);
}

TEST_F(waiting_on_postgres, behind_a_pooler_retries_and_leaves_nothing_in_sessions) {
    const transaction_pooler pooler(server().port());
    const auto locks = open({.connection = server().url_at(pooler.port())});
    const auto id = take(locks, "k", 600s);
    std::atomic<bool> granted{false};
    std::jthread waiting([&] {
        EXPECT_TRUE(acquire_with_retries(locks, "k", retrying_every(20ms)).valid());
        granted = true;
    });
    EXPECT_TRUE(eventually([&] { return pooler.connections() == 2; }));
    EXPECT_EQ(server().value(interest_markers), "0");
    EXPECT_TRUE(locks.release(id.str()).ok);
    EXPECT_TRUE(eventually([&] { return granted.load(); }));
    EXPECT_EQ(server().value(interest_markers), "0");
}

TEST_F(waiting_on_postgres, one_connection_is_enough_to_attempt_and_to_be_woken) {
    server().run(
        "DROP ROLE IF EXISTS poor; CREATE ROLE poor LOGIN CONNECTION LIMIT 1; "
        "GRANT ALL ON syncguard_locks, syncguard_fence_counters TO poor");
    auto url = server().url();
    url.replace(url.find("postgres@"), 8, "poor");
    const auto id = take(open(), "k", 600s);
    const auto locks = open({.connection = url, .pool_size = 1});
    const auto begin = std::chrono::steady_clock::now();
    std::jthread waiting(
        [&] { EXPECT_TRUE(acquire_with_retries(locks, "k", hardly_ever_retrying()).valid()); });
    EXPECT_TRUE(eventually(has_waiter));
    EXPECT_TRUE(open().release(id.str()).ok);
    waiting.join();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 2min) << "nobody told";
}

TEST_F(waiting_on_postgres, without_a_free_connection_retries_from_the_first_attempt_on) {
    server().run(
        "DROP ROLE IF EXISTS poorest; CREATE ROLE poorest LOGIN CONNECTION LIMIT 1; "
        "GRANT ALL ON syncguard_locks, syncguard_fence_counters TO poorest");
    auto url = server().url();
    url.replace(url.find("postgres@"), 8, "poorest");
    std::optional<postgres_connection> other(url);
    const auto locks = open({.connection = url, .pool_size = 1});
    std::jthread waiting(
        [&] { EXPECT_TRUE(acquire_with_retries(locks, "k", retrying_every(20ms)).valid()); });
    EXPECT_TRUE(eventually([] {
        return server().log().find("too many connections for role \"poorest\"") !=
               std::string::npos;
    }));
    other.reset();
}

TEST_F(waiting_on_postgres, only_one_of_many_waiting_threads_asks_the_server) {
    constexpr int threads = 100;
    const auto locks = open();
    auto held = *locks.acquire("k", {.ttl = 600s});
    const auto transactions = [] {
        server().run("SELECT pg_stat_force_next_flush()");
        return std::stol(server().value(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'postgres'"));
    };
    long before = 0;
    {
        std::vector<std::jthread> crowd;
        for (int i = 0; i < threads; ++i) {
            crowd.emplace_back([&] {
                EXPECT_TRUE(acquire_with_retries(locks, "k", hardly_ever_retrying()).release().ok);
            });
        }
        EXPECT_TRUE(eventually(has_waiter));
        before = transactions();
        held.release();
    }
    // For each thread: a release, an attempt that finds the lock taken, and one that gets it. Some
    // threads are also woken by notifications meant for the thread before them. The server also
    // counts transactions late.
    EXPECT_LE(transactions() - before, 5 * threads);
}

}  // namespace
}  // namespace syncguard::test
