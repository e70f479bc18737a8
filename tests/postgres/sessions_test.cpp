/// The number of connections that a PostgreSQL client uses: after calls that were cancelled or
/// timed out, with many calls on one key, while it waits, and when the server accepts no more
/// connections.
#include "postgres/postgres_fault.hpp"

#include <syncguard/lock.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

class postgres_sessions : public postgres_fault {
  protected:
    static long number(const std::string& sql) { return std::stol(server().value(sql)); }

    /// The connections of the clients under test.
    static long sessions() {
        return number(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'syncguard' "
            "AND backend_type = 'client backend'");
    }
    static long waiting_sessions() {
        return number("SELECT count(*) FROM pg_locks WHERE NOT granted");
    }

    /// Whether one client waits to be notified of a release.
    static bool is_one_flag_up() {
        return number(
                   "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 "
                   "AND granted") == 1;
    }

    /// Creates a role that may have this many sessions.
    static void make_role(const std::string& name, int sessions) {
        server().run("DO $$ BEGIN CREATE ROLE " + name + " LOGIN CONNECTION LIMIT " +
                     std::to_string(sessions) +
                     "; EXCEPTION WHEN duplicate_object THEN NULL; END $$; "
                     "GRANT ALL ON syncguard_locks, syncguard_fence_counters TO " +
                     name);
    }

    static std::string key(int i) { return "k" + std::to_string(i); }

    /// Expects that calls for free keys, and calls for a held lock, are performed soon.
    static void expect_service_by(const any_backend& locks, lease<any_capabilities>& held) {
        const call_options soon{.timeout = 2s};
        for (int i = 0; i < 20; ++i)
            EXPECT_TRUE(locks.acquire("free" + key(i), {.timeout = soon.timeout}));
        EXPECT_FALSE(locks.is_locked("free", soon));
        EXPECT_TRUE(held.extend({.ttl = 60s, .timeout = soon.timeout}).ok);
        EXPECT_TRUE(held.release(soon).ok);
    }

    static void store_expired_lock(const std::string& key) {
        server().run("INSERT INTO syncguard_locks VALUES ($1, $2, 2, 1, '000000000000001', $1)",
                     {key, lock_id::generate().to_string()});
    }

    /// Cancels many acquisitions that wait on the server until `other` ends its transaction.
    /// Expects that they leave no waiting sessions.
    static void expect_no_session_after_cancellations(const std::string& statement) {
        constexpr int pool = 5;
        constexpr int rounds = 20;
        const postgres::backend locks({.connection = server().url(), .pool_size = pool}, quiet());
        for (int i = 0; i < pool; ++i)
            store_expired_lock(key(i));
        auto other = server().connect();
        other.run("BEGIN; " + statement);
        for (int round = 0; round < rounds; ++round) {
            std::stop_source stop;
            std::vector<std::jthread> callers;
            for (int i = 0; i < pool; ++i) {
                callers.emplace_back([&, i] {
                    expect_error(error_code::aborted, [&] {
                        (void)locks.acquire(key(i), {.timeout = 10min}, stop.get_token());
                    });
                });
            }
            EXPECT_TRUE(eventually([] { return waiting_sessions() >= pool; }));
            stop.request_stop();
        }
        EXPECT_TRUE(eventually([] { return waiting_sessions() == 0; })) << waiting_sessions();
        // Beside the pool there may be one connection for extensions and one that listens.
        EXPECT_LE(sessions(), pool + 2);
        other.run("COMMIT");
        EXPECT_TRUE(locks.acquire(key(0)));
    }

    static constexpr milliseconds short_timeout{1'000};
    using limited_call = std::function<void(const any_backend&, std::stop_token)>;

    static limited_call acquisition_of(const std::string& key) {
        return [=](const any_backend& locks, std::stop_token stop) {
            (void)locks.acquire(key, {.ttl = 60s, .timeout = short_timeout}, std::move(stop));
        };
    }
    static limited_call release_of(const lock_id& id) {
        return [=](const any_backend& locks, std::stop_token stop) {
            (void)locks.release(id, {.timeout = short_timeout}, std::move(stop));
        };
    }
    static limited_call extension_of(const lock_id& id) {
        return [=](const any_backend& locks, std::stop_token stop) {
            (void)locks.extend(id, {.ttl = 60s, .timeout = short_timeout}, std::move(stop));
        };
    }

    /// Ends calls by their timeouts and by stop requests while they wait on the server until
    /// `other` ends its transaction, and no cancel request reaches the server. Expects that their
    /// waits end, too.
    void expect_waits_to_end_with(const std::vector<limited_call>& calls,
                                  const std::string& statement_of_other) {
        std::vector<any_backend> clients;
        for (std::size_t i = 0; i < 2 * calls.size(); ++i) {
            clients.push_back(open(5s, 1));
            EXPECT_FALSE(clients.back().is_locked("warm-up"));
        }
        proxy_.refuse_connections();
        auto other = server().connect();
        other.run("BEGIN; " + statement_of_other);
        for (std::size_t i = 0; i < calls.size(); ++i)
            expect_error(error_code::network_timeout, [&] { calls[i](clients[i], {}); });
        EXPECT_TRUE(eventually([] { return waiting_sessions() == 0; }, margin))
            << waiting_sessions();

        std::stop_source stop;
        std::vector<std::jthread> callers;
        for (std::size_t i = 0; i < calls.size(); ++i) {
            callers.emplace_back([&, i] {
                expect_error(error_code::aborted,
                             [&] { calls[i](clients[calls.size() + i], stop.get_token()); });
            });
        }
        EXPECT_TRUE(eventually(
            [&] { return waiting_sessions() == static_cast<long>(calls.size()); }, short_timeout));
        stop.request_stop();
        callers.clear();
        EXPECT_TRUE(eventually([] { return waiting_sessions() == 0; }, short_timeout + margin))
            << waiting_sessions();
        other.run("COMMIT");
    }
};

TEST_F(postgres_sessions, a_wait_for_a_key_ends_with_its_call_even_if_it_cannot_be_cancelled) {
    expect_waits_to_end_with({acquisition_of("k")}, "SELECT pg_advisory_xact_lock(hashtext('k'))");
}

TEST_F(postgres_sessions, a_wait_for_a_row_ends_with_its_call_even_if_it_cannot_be_cancelled) {
    store_expired_lock("expired");
    const postgres::backend locks({.connection = server().url()}, quiet());
    const auto id = locks.acquire("held", {.ttl = 60s})->detach();
    const auto other_id = locks.acquire("held, too", {.ttl = 60s})->detach();
    expect_waits_to_end_with({acquisition_of("expired"), release_of(id), extension_of(other_id)},
                             "SELECT * FROM syncguard_locks FOR UPDATE");
}

TEST_F(postgres_sessions, a_wait_for_a_table_ends_with_its_call_even_if_it_cannot_be_cancelled) {
    const auto id = lock_id::generate();
    expect_waits_to_end_with(
        {acquisition_of("k"), release_of(id), extension_of(id),
         [](const any_backend& locks, std::stop_token stop) {
             (void)locks.is_locked("k", {.timeout = short_timeout}, std::move(stop));
         },
         [](const any_backend& locks, std::stop_token stop) {
             (void)locks.lookup(key_lookup{"k"}, {.timeout = short_timeout}, std::move(stop));
         },
         [id](const any_backend& locks, std::stop_token stop) {
             (void)locks.lookup(ownership_lookup{id.str()}, {.timeout = short_timeout},
                                std::move(stop));
         }},
        "LOCK TABLE syncguard_locks IN ACCESS EXCLUSIVE MODE");
}

TEST_F(postgres_sessions, several_waits_of_one_call_end_with_it_even_if_they_cannot_be_cancelled) {
    constexpr milliseconds timeout{4'000};
    store_expired_lock("k");
    server().run("INSERT INTO syncguard_fence_counters VALUES ('fence:k', 1, 'k')");
    auto with_key = server().connect();
    with_key.run("BEGIN; SELECT pg_advisory_xact_lock(hashtext('k'))");
    auto with_counter = server().connect();
    with_counter.run("BEGIN; SELECT * FROM syncguard_fence_counters FOR UPDATE");
    auto with_row = server().connect();
    with_row.run("BEGIN; SELECT * FROM syncguard_locks FOR UPDATE");
    const auto locks = open(5s, 1);
    EXPECT_FALSE(locks.is_locked("warm-up"));
    proxy_.refuse_connections();

    const auto begin = steady_clock::now();
    const auto until = [&](milliseconds then) {
        EXPECT_TRUE(eventually([&] { return steady_clock::now() >= begin + then; }));
        EXPECT_EQ(waiting_sessions(), 1) << "after " << then.count() << " ms";
    };
    std::jthread calling([&] {
        expect_error(error_code::network_timeout,
                     [&] { (void)locks.acquire("k", {.ttl = 60s, .timeout = timeout}); });
    });
    until(timeout * 3 / 8);
    with_key.run("COMMIT");
    until(timeout * 6 / 8);
    with_counter.run("COMMIT");
    calling.join();
    const auto left = begin + timeout + margin - steady_clock::now();
    EXPECT_TRUE(eventually([] { return waiting_sessions() == 0; },
                           std::chrono::duration_cast<milliseconds>(left)))
        << waiting_sessions();
    with_row.run("COMMIT");
}

TEST_F(postgres_sessions, cancelled_acquisitions_of_a_blocked_key_leave_no_session) {
    expect_no_session_after_cancellations(
        "SELECT pg_advisory_xact_lock(hashtext('k' || i)) FROM generate_series(0, 9) i");
}

TEST_F(postgres_sessions, cancelled_acquisitions_of_a_locked_row_leave_no_session) {
    expect_no_session_after_cancellations("SELECT * FROM syncguard_locks FOR UPDATE");
}

TEST_F(postgres_sessions, calls_that_timed_out_at_a_locked_table_leave_no_session) {
    const postgres::backend locks({.connection = server().url(), .pool_size = 4}, quiet());
    auto other = server().connect();
    other.run("BEGIN; LOCK TABLE syncguard_locks IN ACCESS EXCLUSIVE MODE");
    for (int i = 0; i < 12; ++i) {
        expect_error(error_code::network_timeout,
                     [&] { (void)locks.is_locked("k", {.timeout = 200ms}); });
    }
    EXPECT_LE(sessions(), 9);
    EXPECT_TRUE(eventually([] { return waiting_sessions() == 0; })) << waiting_sessions();
    other.run("COMMIT");
    EXPECT_FALSE(locks.is_locked("k"));
}

TEST_F(postgres_sessions, a_destroyed_client_ends_its_waiting_sessions) {
    auto other = server().connect();
    other.run("BEGIN; SELECT pg_advisory_xact_lock(hashtext('k'))");
    for (int i = 0; i < 3; ++i) {
        const postgres::backend locks({.connection = server().url()}, quiet());
        std::stop_source stop;
        std::jthread stopping([&] {
            EXPECT_TRUE(eventually([] { return waiting_sessions() > 0; }));
            stop.request_stop();
        });
        expect_error(error_code::aborted,
                     [&] { (void)locks.acquire("k", {.timeout = 10min}, stop.get_token()); });
    }
    EXPECT_TRUE(eventually([] { return sessions() == 0; })) << sessions();
    other.run("COMMIT");
}

TEST_F(postgres_sessions, only_one_of_the_calls_for_a_blocked_key_has_a_connection) {
    const auto locks = open(20s, 4);
    auto held = locks.acquire("held", {.ttl = 60s});
    auto other = server().connect();
    other.run("BEGIN; SELECT pg_advisory_xact_lock(hashtext('stuck'))");
    {
        std::vector<std::jthread> crowd;
        for (int i = 0; i < 10; ++i)
            crowd.emplace_back(
                [&] { EXPECT_NO_THROW((void)locks.acquire("stuck", {.ttl = 60s})); });
        EXPECT_TRUE(eventually([] { return waiting_sessions() > 0; }));
        for (int i = 0; i < 20; ++i)
            EXPECT_TRUE(locks.acquire(key(i), {.timeout = 2s}));
        EXPECT_TRUE(held->release({.timeout = 2s}).ok);
        EXPECT_EQ(waiting_sessions(), 1);
        other.run("COMMIT");
    }
}

TEST_F(postgres_sessions, blocked_keys_that_use_the_whole_pool_do_not_delay_calls_for_other_keys) {
    for (const int pool : {1, 3}) {
        SCOPED_TRACE(pool);
        const auto locks = open(20s, static_cast<std::size_t>(pool));
        auto held = locks.acquire("held", {.ttl = 60s});
        auto other = server().connect();
        other.run(
            "BEGIN; SELECT pg_advisory_xact_lock(hashtext('k' || i)) "
            "FROM generate_series(0, 9) AS i");
        std::vector<std::jthread> crowd;
        // One call more than the pool has connections: it waits before the others in the queue.
        for (int i = 0; i <= pool; ++i) {
            crowd.emplace_back([&, i] {
                EXPECT_NO_THROW((void)locks.acquire(key(i), {.ttl = 60s, .timeout = 20s}));
            });
        }
        EXPECT_TRUE(eventually([&] { return waiting_sessions() == pool; }));
        EXPECT_NO_THROW(expect_service_by(locks, *held));
        EXPECT_EQ(waiting_sessions(), pool);
        // Beside the pool there is one connection.
        EXPECT_TRUE(eventually([&] { return sessions() == pool + 1; })) << sessions();
        other.run("COMMIT");
    }
}

TEST_F(postgres_sessions, each_call_for_a_blocked_key_ends_at_its_own_deadline) {
    const auto locks = open();
    auto other = server().connect();
    other.run("BEGIN; SELECT pg_advisory_xact_lock(hashtext('stuck'))");
    std::jthread first([&] {
        expect_error(error_code::network_timeout,
                     [&] { (void)locks.acquire("stuck", {.timeout = 6s}); });
    });
    ASSERT_TRUE(eventually([] { return waiting_sessions() == 1; }));
    const auto begin = steady_clock::now();
    const auto failure = expect_error(error_code::network_timeout,
                                      [&] { (void)locks.acquire("stuck", {.timeout = 300ms}); });
    EXPECT_LT(steady_clock::now() - begin, 300ms + margin);
    EXPECT_NE(std::string(failure->what()).find("same key"), std::string::npos) << failure->what();
    EXPECT_EQ(waiting_sessions(), 1);
    first.join();
    other.run("COMMIT");
}

TEST_F(postgres_sessions, calls_for_one_key_whose_row_is_locked_leave_connections_to_others) {
    const auto locks = open(20s, 2);
    store_expired_lock("stuck");
    auto other = server().connect();
    other.run("BEGIN; UPDATE syncguard_locks SET expires_at_ms = 0 WHERE key = 'stuck'");
    {
        std::vector<std::jthread> crowd;
        for (int i = 0; i < 8; ++i)
            crowd.emplace_back(
                [&] { EXPECT_NO_THROW((void)locks.acquire("stuck", {.ttl = 60s})); });
        EXPECT_TRUE(eventually([] { return waiting_sessions() > 0; }));
        for (int i = 0; i < 20; ++i)
            EXPECT_TRUE(locks.acquire(key(i), {.timeout = 2s}));
        other.run("COMMIT");
    }
}

TEST_F(postgres_sessions, timeouts_below_the_round_trip_do_not_each_open_a_connection) {
    constexpr std::size_t pool = 2;
    const auto locks = open(5s, pool);
    EXPECT_FALSE(locks.is_locked("k"));
    proxy_.delay(direction::to_client, 20ms);
    std::atomic<int> failed{0};
    std::vector<std::jthread> callers;
    for (int i = 0; i < 2; ++i) {
        callers.emplace_back([&] {
            for (int call = 0; call < 200; ++call) {
                try {
                    (void)locks.is_locked("k", {.timeout = 6ms});
                } catch (const lock_error& failure) {
                    EXPECT_EQ(failure.code(), error_code::network_timeout) << failure.what();
                    ++failed;
                }
            }
        });
    }
    callers.clear();
    EXPECT_GT(failed, 100);
    EXPECT_LE(proxy_.connections(), 2 * pool);
    proxy_.delay(direction::to_client, 0ms);
    EXPECT_FALSE(locks.is_locked("k"));
}

/// Raises an error with a given SQLSTATE at the first acquisitions that insert a row.
class refusing_first_attempts {
  public:
    refusing_first_attempts(const postgres_server& server, const std::string& sqlstate, long count)
        : server_(server) {
        server_.run(
            "CREATE SEQUENCE attempts; CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql "
            "AS $$ BEGIN IF nextval('attempts') <= " +
            std::to_string(count) + " THEN RAISE EXCEPTION 'no' USING ERRCODE = '" + sqlstate +
            "'; END IF; RETURN NEW; END $$; CREATE TRIGGER refusing BEFORE INSERT ON "
            "syncguard_locks FOR EACH ROW EXECUTE FUNCTION refuse()");
    }
    refusing_first_attempts(const refusing_first_attempts&) = delete;
    refusing_first_attempts& operator=(const refusing_first_attempts&) = delete;
    ~refusing_first_attempts() {
        server_.run(
            "DROP TRIGGER refusing ON syncguard_locks; DROP FUNCTION refuse; "
            "DROP SEQUENCE attempts");
    }
    [[nodiscard]] long attempts() const {
        return std::stol(server_.value("SELECT last_value FROM attempts"));
    }

  private:
    const postgres_server& server_;
};

TEST_F(postgres_sessions, serialization_failures_and_deadlocks_are_repeated_until_the_deadline) {
    const auto locks = open(20s);
    for (const std::string sqlstate : {"40001", "40P01"}) {
        const refusing_first_attempts refusing(server(), sqlstate, 25);
        EXPECT_TRUE(locks.acquire("k" + sqlstate));
    }
}

TEST_F(postgres_sessions, a_lasting_serialization_failure_is_reported_at_the_deadline) {
    const auto locks = open();
    const refusing_first_attempts refusing(server(), "40001", 1'000'000);
    const auto begin = steady_clock::now();
    const auto failure = expect_error(error_code::service_unavailable,
                                      [&] { (void)locks.acquire("k", {.timeout = 1s}); });
    EXPECT_NE(std::string(failure->what()).find("40001"), std::string::npos) << failure->what();
    EXPECT_GT(steady_clock::now() - begin, 500ms);
    EXPECT_LT(steady_clock::now() - begin, 1s + margin);
    EXPECT_LT(refusing.attempts(), 100) << "in a busy loop";
}

TEST_F(postgres_sessions, a_cancelled_call_is_not_repeated_after_a_serialization_failure) {
    const auto locks = open();
    const refusing_first_attempts refusing(server(), "40001", 1'000'000);
    std::stop_source stop;
    std::jthread stopping([&] {
        EXPECT_TRUE(eventually([&] { return refusing.attempts() > 15; }));
        stop.request_stop();
    });
    expect_error(error_code::aborted,
                 [&] { (void)locks.acquire("k", {.timeout = 10min}, stop.get_token()); });
}

/// The sessions of clients with this name.
std::string sessions_named(const std::string& name) {
    return "FROM pg_stat_activity WHERE application_name = '" + name + "'";
}

lock_options waiting_by_notification() {
    return {.ttl = 60s,
            .timeout = 1min,
            .retry = {.max_retries = 1000,
                      .retry_delay = 1min,
                      .backoff = backoff::fixed,
                      .jitter = jitter::none}};
}

TEST_F(postgres_sessions, a_waiting_client_has_one_connection_and_uses_it_when_notified) {
    const postgres::backend holder({.connection = server().url()}, quiet());
    auto held = holder.acquire("k", {.ttl = 60s});
    const auto waiters = [] { return number("SELECT count(*) " + sessions_named("waiter")); };
    std::jthread waiting([&] {
        const postgres::backend locks(
            {.connection = server().url() + "&application_name=waiter", .pool_size = 1}, quiet());
        const auto begin = steady_clock::now();
        auto lease = acquire_with_retries(locks, "k", waiting_by_notification());
        EXPECT_LT(steady_clock::now() - begin, 30s);
        EXPECT_EQ(waiters(), 1);
        EXPECT_TRUE(lease.release().ok);
    });
    EXPECT_TRUE(eventually(is_one_flag_up));
    EXPECT_EQ(waiters(), 1);
    EXPECT_TRUE(held->release().ok);
}

TEST_F(postgres_sessions, a_release_on_the_only_connection_wakes_waiters_of_the_same_client) {
    make_role("lonely", 1);
    auto url = server().url();
    url.replace(url.find("postgres@"), 8, "lonely");
    const postgres::backend locks({.connection = url}, quiet());
    auto held = locks.acquire("k", {.ttl = 60s});
    const auto begin = steady_clock::now();
    std::jthread waiting([&] {
        EXPECT_NO_THROW(
            EXPECT_TRUE(acquire_with_retries(locks, "k", waiting_by_notification()).release().ok));
        EXPECT_LT(steady_clock::now() - begin, 30s);
    });
    EXPECT_TRUE(eventually(is_one_flag_up));
    EXPECT_TRUE(held->release().ok);
}

TEST_F(postgres_sessions, a_call_that_waits_on_the_server_does_not_delay_notifications) {
    const postgres::backend holder({.connection = server().url()}, quiet());
    auto held = holder.acquire("k", {.ttl = 60s});
    auto other = server().connect();
    other.run("BEGIN; SELECT pg_advisory_xact_lock(hashtext('stuck'))");
    const postgres::backend locks({.connection = server().url()}, quiet());
    std::jthread waiting([&] {
        EXPECT_NO_THROW(
            EXPECT_TRUE(acquire_with_retries(locks, "k", waiting_by_notification()).release().ok));
    });
    EXPECT_TRUE(eventually(is_one_flag_up));
    std::jthread calling(
        [&] { EXPECT_NO_THROW((void)locks.acquire("stuck", {.ttl = 60s, .timeout = 30s})); });
    EXPECT_TRUE(eventually([] { return waiting_sessions() == 1; }));
    EXPECT_TRUE(held->release().ok);
    waiting.join();
    EXPECT_EQ(waiting_sessions(), 1);
    other.run("COMMIT");
}

/// Clients of a role whose connection limit is lower than the number of sessions they want.
class postgres_connection_limit : public postgres_sessions {
  protected:
    postgres_connection_limit() {
        make_role("crowded", largest_crowd);
        for (int i = 0; i < 4; ++i)
            waiters_.emplace_back(postgres::options{.connection = url_for("waiter")}, quiet());
    }
    ~postgres_connection_limit() override { limit_sessions(largest_crowd); }

    static void limit_sessions(int most) {
        server().run("ALTER ROLE crowded CONNECTION LIMIT " + std::to_string(most));
    }
    void expect_holder_to_reconnect_and_extend();

    std::vector<postgres::backend> waiters_;

  private:
    static constexpr int largest_crowd = 50;

    static std::string url_for(const std::string& client) {
        auto url = server().url() + "&application_name=" + client;
        return url.replace(url.find("postgres@"), 8, "crowded");
    }
};

void postgres_connection_limit::expect_holder_to_reconnect_and_extend() {
    const postgres::backend holder({.connection = url_for("holder")}, quiet());
    auto lease = acquire_with_retries(holder, "k", {.ttl = 3s});
    lease.keep_alive();
    const auto end_of_lock = [] {
        return number("SELECT max(expires_at_ms) FROM syncguard_locks");
    };
    const auto extended_after = [&](long end) {
        return eventually([&] { return end_of_lock() > end; }, 10s);
    };
    EXPECT_TRUE(extended_after(end_of_lock()));
    const auto logged_before = server().log().size();
    std::vector<std::jthread> waiting;
    while (!waiters_.empty()) {
        waiting.emplace_back([&, locks = std::optional(std::move(waiters_.back()))]() mutable {
            EXPECT_NO_THROW(EXPECT_TRUE(
                acquire_with_retries(*locks, "k",
                                     {.ttl = 60s,
                                      .timeout = 1min,
                                      .retry = {.max_retries = retry_policy::unlimited_retries,
                                                .retry_delay = 50ms,
                                                .max_delay = 250ms}})
                    .release()
                    .ok));
            locks.reset();
        });
        waiters_.pop_back();
    }
    // So many refusals that each client without a connection has had one.
    EXPECT_TRUE(eventually([&] {
        const auto log = server().log().substr(logged_before);
        const std::string refusal = "too many connections for role \"crowded\"";
        int refusals = 0;
        for (auto at = log.find(refusal); at != std::string::npos; at = log.find(refusal, at + 1))
            ++refusals;
        return refusals >= 15;
    }));
    for (int i = 0; i < 3; ++i) {
        server().run("SELECT pg_terminate_backend(pid) " + sessions_named("holder"));
        const auto before = end_of_lock();
        EXPECT_TRUE(extended_after(before));
        EXPECT_TRUE(extended_after(before + 1'000));
        EXPECT_TRUE(lease.valid());
    }
    EXPECT_TRUE(lease.release().ok);
}

TEST_F(postgres_connection_limit,
       holders_reconnect_and_extend_while_waiters_want_every_connection) {
    limit_sessions(3);
    expect_holder_to_reconnect_and_extend();
}

TEST_F(postgres_connection_limit,
       holders_reconnect_and_extend_even_if_the_waiters_once_held_other_locks) {
    for (std::size_t i = 0; i < waiters_.size(); ++i)
        EXPECT_TRUE(waiters_[i].acquire("other" + std::to_string(i), {.ttl = 10min})->release().ok);
    limit_sessions(3);
    server().run("SELECT pg_terminate_backend(pid) " + sessions_named("waiter"));
    expect_holder_to_reconnect_and_extend();
}

TEST_F(postgres_sessions, unlimited_timeouts_do_not_overflow) {
    const postgres::backend locks({.connection = server().url(),
                                   .connect_timeout = milliseconds::max(),
                                   .statement_timeout = milliseconds::max()},
                                  quiet(milliseconds::max()));
    auto lease = locks.acquire("k", {.ttl = 60s, .timeout = milliseconds::max()});
    ASSERT_TRUE(lease);
    EXPECT_FALSE(locks.acquire("k"));
    EXPECT_TRUE(lease->extend({.ttl = 60s}).ok);
    EXPECT_TRUE(lease->release().ok);
}

std::ptrdiff_t open_descriptors() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
}

TEST_F(postgres_sessions, a_thousand_failed_connects_leave_no_descriptor_open) {
    /// Completes the login of each client and then closes the connection.
    struct greeter {
        greeter() {
            auto address = loopback_address(0);
            ::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
            ::listen(listener.get(), 100);
        }
        void serve(const std::stop_token& stop) const {
            static constexpr std::array<char, 15> greeting{'R', 0,   0, 0, 8, 0, 0,  0,
                                                           0,   'Z', 0, 0, 0, 5, 'I'};
            while (!stop.stop_requested()) {
                pollfd input{.fd = listener.get(), .events = POLLIN, .revents = 0};
                if (::poll(&input, 1, 100) != 1) continue;
                const owned_fd client(::accept(listener.get(), nullptr, nullptr));
                std::array<char, 1000> startup{};
                (void)::recv(client.get(), startup.data(), startup.size(), 0);
                (void)::send(client.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL);
            }
        }
        owned_fd listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    };
    const greeter hostile;
    std::jthread serving([&](const std::stop_token& stop) { hostile.serve(stop); });
    const reserved_port closed;
    const auto fail_to_connect = [&](std::uint16_t port) {
        const postgres::backend locks(
            {.connection = "postgres://u@127.0.0.1:" + std::to_string(port) +
                           "/postgres?sslmode=disable&gssencmode=disable"},
            quiet());
        expect_error(error_code::service_unavailable, [&] { (void)locks.is_locked("k"); });
    };
    for (const auto port : {closed.number(), port_of(hostile.listener.get())}) {
        fail_to_connect(port);
        const auto before = open_descriptors();
        for (int i = 0; i < 500; ++i)
            fail_to_connect(port);
        // The server may close its side of the last connection at any time.
        EXPECT_TRUE(eventually([&] { return open_descriptors() <= before; }))
            << before << " and then " << open_descriptors();
    }
}

}  // namespace
}  // namespace syncguard::test
