/// Refusals by the server, repeated attempts, and the effects of poolers.
#include "postgres/on_postgres.hpp"
#include "postgres/service_file.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"
#include "support/fault_proxy.hpp"
#include "support/transaction_pooler.hpp"

#include <atomic>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

class postgres_refusals : public on_postgres {
  protected:
    /// A connection with a setting, as an administrator may have set the default.
    static std::string with(std::string setting) {
        setting.replace(setting.find('='), 1, "%3D");
        return server().url() + "&options=-c%20" + setting;
    }
    static void wait_for_waiting(const char* count = "1") {
        EXPECT_TRUE(eventually([&] {
            return server().value("SELECT count(*) FROM pg_locks WHERE NOT granted") == count;
        }));
    }
};

TEST_F(postgres_refusals, a_server_that_only_reads_is_unavailable) {
    const auto reading = with("default_transaction_read_only=on");
    const auto backend = open({.connection = reading + "&target_session_attrs=any"});
    expect_error(error_code::service_unavailable, [&] { (void)backend.acquire("k"); });
    EXPECT_FALSE(backend.is_locked("k"));
    // The server may be a standby, which does not know the latest grants.
    const auto failure = expect_error(error_code::service_unavailable,
                                      [&] { (void)open({.connection = reading}).is_locked("k"); });
    ASSERT_TRUE(failure);
    EXPECT_NE(std::string(failure->what()).find("only reads"), std::string::npos)
        << failure->what();
}

TEST_F(postgres_refusals, a_server_that_only_reads_is_unavailable_by_service_too) {
    const std::string place =
        "host=localhost\nhostaddr=127.0.0.1\nport=" + std::to_string(server().port()) +
        "\nuser=postgres\ndbname=postgres\nsslmode=disable\n";
    const service_file file("[writes]\n" + place + "[reads]\n" + place +
                            "options=-c default_transaction_read_only=on\n");
    EXPECT_TRUE(open({.connection = "service=writes"}).acquire("k")->release().ok);
    for (const auto* connection : {"service=reads", "application_name=by_environment"}) {
        ASSERT_EQ(::setenv("PGSERVICE", "reads", 1), 0);
        expect_error(error_code::service_unavailable,
                     [&] { (void)open({.connection = connection}).is_locked("k"); });
    }
    EXPECT_FALSE(open({.connection = "service=reads target_session_attrs=any"}).is_locked("k"));
}

TEST_F(postgres_refusals, a_session_that_becomes_read_only_is_closed) {
    const auto backend = open();
    EXPECT_TRUE(backend.acquire("k"));
    const std::string sessions =
        "FROM pg_stat_activity WHERE query LIKE '%syncguard_locks%' AND pid <> pg_backend_pid()";
    const auto first = server().value("SELECT pid " + sessions);
    server().run("ALTER SYSTEM SET default_transaction_read_only = on");
    server().run("SELECT pg_reload_conf()");
    EXPECT_TRUE(eventually([] { return server().value("SHOW transaction_read_only") == "on"; }));
    expect_error(error_code::service_unavailable, [&] {
        while (true)
            (void)backend.acquire("k");
    });
    EXPECT_TRUE(eventually([&] {
        return server().value("SELECT count(*) " + sessions + " AND pid = " + first) == "0";
    }));
    auto admin = server().connect();
    admin.run("SET default_transaction_read_only = off");
    admin.run("ALTER SYSTEM RESET default_transaction_read_only");
    admin.run("SELECT pg_reload_conf()");
    EXPECT_TRUE(eventually([] { return server().value("SHOW transaction_read_only") == "off"; }));
    EXPECT_TRUE(backend.acquire("other"));
}

TEST_F(postgres_refusals, the_writable_one_of_several_hosts_is_found) {
    const std::string port = std::to_string(server().port());
    const reserved_port dead;
    const auto backend =
        open({.connection = "host=127.0.0.1,127.0.0.1 port=" + std::to_string(dead.number()) + "," +
                            port +
                            " user=postgres dbname=postgres sslmode=disable "
                            "target_session_attrs=read-write"});
    EXPECT_TRUE(backend.acquire("k"));
    const auto none = open({.connection = with("default_transaction_read_only=on") +
                                          "&target_session_attrs=read-write"});
    expect_error(error_code::service_unavailable, [&] { (void)none.acquire("k"); });
}

/// A server whose default isolation is not read committed.
class postgres_isolation : public postgres_refusals {
  protected:
    /// How many transactions the server refused while many callers of one backend want one key.
    static std::ptrdiff_t conflicts_in_a_crowd(const postgres::backend& backend) {
        const auto before = server().log().size();
        std::atomic<int> inside{0};
        std::atomic<int> violations{0};
        std::atomic<int> granted{0};
        {
            std::vector<std::jthread> all;
            for (int i = 0; i < 4; ++i) {
                all.emplace_back([&] {
                    while (granted < 200) {
                        auto lease = backend.acquire("k");
                        if (!lease) continue;
                        if (++inside != 1) ++violations;
                        ++granted;
                        --inside;
                        EXPECT_TRUE(lease->release().ok);
                    }
                });
            }
        }
        EXPECT_EQ(violations, 0);
        std::ptrdiff_t conflicts = 0;
        const auto log = server().log();
        for (auto at = log.find("could not serialize", before); at != std::string::npos;
             at = log.find("could not serialize", at + 1))
            ++conflicts;
        return conflicts;
    }
};

TEST_F(postgres_isolation, stricter_by_default_is_overridden_for_each_transaction) {
    for (const char* each : {"serializable", "repeatable%5C%20read"}) {
        const auto backend =
            open({.connection = with(std::string("default_transaction_isolation=") + each)});
        EXPECT_EQ(conflicts_in_a_crowd(backend), 0) << each;
    }
    EXPECT_EQ(server().log().find("can only be used in transaction blocks"), std::string::npos);
}

TEST_F(postgres_isolation, is_set_for_transactions_that_discard_plans_too) {
    const auto backend =
        open({.connection = with("default_transaction_isolation=serializable"), .pool_size = 1});
    for (int i = 0; i < 10'010; ++i)
        ASSERT_NO_THROW(EXPECT_FALSE(backend.is_locked("k"))) << i;
}

TEST_F(postgres_isolation, that_becomes_stricter_is_noticed) {
    const auto backend = open();
    EXPECT_EQ(conflicts_in_a_crowd(backend), 0);
    const auto change = [](const std::string& setting, const char* expected) {
        server().run("ALTER SYSTEM " + setting);
        server().run("SELECT pg_reload_conf()");
        EXPECT_TRUE(
            eventually([&] { return server().value("SHOW transaction_isolation") == expected; }));
    };
    change("SET default_transaction_isolation = 'serializable'", "serializable");
    EXPECT_LE(conflicts_in_a_crowd(backend), 10);
    change("RESET default_transaction_isolation", "read committed");
}

TEST_F(postgres_refusals, a_limit_for_statements_of_the_role_does_not_end_a_call) {
    // On the host's clock, as the server's timers are.
    postgres_server running;
    auto other = running.connect();
    other.run("BEGIN; SELECT pg_advisory_xact_lock(hashtext('k'))");
    running.run("ALTER ROLE postgres SET statement_timeout = '100ms'");
    const postgres::backend backend({.connection = running.url()});
    std::jthread waiting(
        [&] { EXPECT_NO_THROW(EXPECT_TRUE(backend.acquire("k", {.timeout = 60s}))); });
    const auto since = [&] {
        return running.value(
            "SELECT coalesce(extract(epoch FROM max(clock_timestamp() - "
            "waitstart)) > 0.3, false) FROM pg_locks WHERE NOT granted");
    };
    EXPECT_TRUE(eventually([&] { return since() == "t"; }));
    other.run("COMMIT");
}

TEST_F(postgres_refusals, a_cancelled_statement_is_a_timeout_and_leaves_nothing) {
    auto other = server().connect();
    other.run("BEGIN; SELECT pg_advisory_xact_lock(hashtext('k'))");
    const auto backend = open();
    std::jthread waiting(
        [&] { expect_error(error_code::network_timeout, [&] { (void)backend.acquire("k"); }); });
    wait_for_waiting();
    server().run("SELECT pg_cancel_backend(pid) FROM pg_locks WHERE NOT granted");
    waiting.join();
    other.run("COMMIT");
    EXPECT_FALSE(backend.is_locked("k"));
}

TEST_F(postgres_refusals, an_acquisition_whose_session_is_terminated_is_looked_up) {
    auto other = server().connect();
    other.run("BEGIN; SELECT pg_advisory_xact_lock(hashtext('k'))");
    const auto backend = open();
    std::jthread waiting([&] {
        expect_error(error_code::service_unavailable, [&] { (void)backend.acquire("k"); });
    });
    wait_for_waiting();
    server().run("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted");
    wait_for_waiting();
    other.run("COMMIT");
    waiting.join();
    EXPECT_TRUE(backend.acquire("k"));
}

TEST_F(postgres_refusals, a_session_that_is_terminated_while_idle_is_replaced) {
    const auto backend = open();
    for (int i = 0; i < 5; ++i) {
        const auto id = take(backend, "k");
        EXPECT_TRUE(backend.extend(id).ok);
        server().run(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            "WHERE application_name = 'syncguard'");
        EXPECT_TRUE(backend.extend(id).ok);
        EXPECT_TRUE(backend.release(id).ok);
    }
}

TEST_F(postgres_refusals, a_deadlock_is_resolved_and_the_call_repeated) {
    const auto backend = open({.connection = with("deadlock_timeout=50ms")});
    take(backend, "k", 10s);
    // `other` holds the row, then waits for the advisory lock; the acquisition holds the advisory
    // lock and waits for the row. The server looks for deadlocks only if its clock advances.
    server().advance(12s);
    auto other = server().connect();
    other.run("SET deadlock_timeout = '1h'");
    other.run("BEGIN; SELECT * FROM syncguard_locks FOR UPDATE");
    std::jthread acquiring([&] { EXPECT_TRUE(backend.acquire("k")); });
    wait_for_waiting();
    std::jthread crossing([&] {
        other.run("SELECT pg_advisory_xact_lock(hashtext('k'))");
        other.run("COMMIT");
    });
    wait_for_waiting("2");
    for (int i = 0;
         i < 200 && server().value("SELECT count(*) FROM pg_locks WHERE NOT granted") == "2"; ++i) {
        server().advance(10ms);
        std::this_thread::sleep_for(1ms);
    }
    crossing.join();
    acquiring.join();
}

TEST_F(postgres_refusals, a_wait_for_others_ends_on_the_server_with_the_call) {
    // On the host's clock, as timeouts are.
    postgres_server running;
    auto other = running.connect();
    other.run("BEGIN; SELECT pg_advisory_xact_lock(hashtext('k'))");
    const postgres::backend backend({.connection = running.url()});
    expect_error(error_code::network_timeout,
                 [&] { (void)backend.acquire("k", {.ttl = 60s, .timeout = 200ms}); });
    EXPECT_TRUE(eventually(
        [&] { return running.value("SELECT count(*) FROM pg_locks WHERE NOT granted") == "0"; }));
    other.run("COMMIT");
    EXPECT_FALSE(backend.is_locked("k"));
    EXPECT_EQ(running.value("SELECT count(*) FROM syncguard_fence_counters"), "0");
}

TEST_F(postgres_refusals, a_long_wait_for_a_row_ends_with_the_deadline_on_the_server_too) {
    postgres_server running;
    const postgres::backend backend({.connection = running.url()});
    const auto id = take(backend, "k", 1s);
    auto other = running.connect();
    other.run("BEGIN; SELECT * FROM syncguard_locks FOR UPDATE");
    expect_error(error_code::network_timeout,
                 [&] { (void)backend.extend(id, {.ttl = 600s, .timeout = 200ms}); });
    expect_error(error_code::network_timeout, [&] { backend.release(id, {.timeout = 200ms}); });
    EXPECT_TRUE(backend.acquire("another"));
    EXPECT_TRUE(eventually(
        [&] { return running.value("SELECT count(*) FROM pg_locks WHERE NOT granted") == "0"; }));
    other.run("COMMIT");
    EXPECT_TRUE(eventually([&] { return !backend.is_locked("k"); }))
        << "an extension was made that nobody waited for any more";
}

TEST_F(postgres_refusals, a_blocked_operation_does_not_delay_its_batch) {
    postgres_server running;
    const postgres::backend backend({.connection = running.url(), .pool_size = 2});
    const auto stuck = take(backend, "stuck");
    std::vector<lock_id> free;
    for (int i = 0; i < 5; ++i)
        free.push_back(take(backend, "free" + std::to_string(i)));
    auto other = running.connect();
    other.run("BEGIN; SELECT * FROM syncguard_locks WHERE key = 'stuck' FOR UPDATE");
    auto first = running.connect();
    first.run(
        "BEGIN; SELECT pg_advisory_xact_lock(hashtext('a')), "
        "pg_advisory_xact_lock(hashtext('b'))");
    {
        // These calls occupy both connections, so that the releases form a batch meanwhile.
        std::vector<std::jthread> ahead;
        for (const char* key : {"a", "b"})
            ahead.emplace_back([&, key] { EXPECT_TRUE(backend.acquire(key)); });
        EXPECT_TRUE(eventually([&] {
            return running.value("SELECT count(*) FROM pg_locks WHERE NOT granted") == "2";
        }));
        std::vector<std::jthread> gathered;
        gathered.emplace_back([&] {
            expect_error(error_code::network_timeout,
                         [&] { backend.release(stuck, {.timeout = 3s}); });
        });
        for (const auto& id : free)
            gathered.emplace_back([&] { EXPECT_TRUE(backend.release(id, {.timeout = 60s}).ok); });
        first.run("COMMIT");
    }
    other.run("COMMIT");
    EXPECT_TRUE(backend.release(stuck).ok);
}

TEST_F(postgres_refusals, an_error_at_the_commit_is_reported_at_once) {
    server().run(
        "CREATE TABLE refused (key text, code text); "
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE r refused; BEGIN "
        "SELECT * INTO r FROM refused WHERE key = NEW.key; "
        "IF r.key IS NOT NULL THEN RAISE EXCEPTION 'no' USING ERRCODE = r.code; END IF; "
        "RETURN NULL; END $$; "
        "CREATE CONSTRAINT TRIGGER refusing AFTER INSERT ON syncguard_locks "
        "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse(); "
        "INSERT INTO refused VALUES ('never', 'P0001'), ('conflict', '40001')");
    const auto backend = open({.pool_size = 1});
    const auto session = [] {
        return server().value(
            "SELECT pid FROM pg_stat_activity WHERE query LIKE '%syncguard_locks%' "
            "AND pid <> pg_backend_pid()");
    };
    EXPECT_TRUE(backend.acquire("another"));
    const auto first_session = session();
    expect_error(error_code::internal, [&] { (void)backend.acquire("never", {.timeout = 10min}); });
    expect_error(error_code::service_unavailable,
                 [&] { (void)backend.acquire("conflict", {.timeout = 500ms}); });
    EXPECT_EQ(session(), first_session);
    EXPECT_FALSE(backend.is_locked("never"));
    EXPECT_EQ(server().value("SELECT count(*) FROM syncguard_fence_counters"), "1");
    server().run(
        "DROP TRIGGER refusing ON syncguard_locks; DROP FUNCTION refuse; "
        "DROP TABLE refused");
}

TEST_F(postgres_refusals, a_user_without_rights_gets_an_error_that_names_them) {
    server().run("DROP ROLE IF EXISTS nobody; CREATE ROLE nobody LOGIN");
    auto url = server().url();
    url.replace(url.find("postgres@"), 8, "nobody");
    const auto failure = expect_error(error_code::auth_failed,
                                      [&] { (void)open({.connection = url}).acquire("k"); });
    EXPECT_NE(std::string(failure->what()).find("SELECT, INSERT, UPDATE and DELETE"),
              std::string::npos);
}

TEST_F(postgres_refusals, a_missing_database_is_an_invalid_argument) {
    auto url = server().url();
    url.replace(url.find("/postgres?"), 10, "/absent?");
    expect_error(error_code::invalid_argument,
                 [&] { (void)open({.connection = url}).is_locked("k"); });
}

TEST_F(postgres_refusals, a_pooler_may_give_every_transaction_another_session) {
    const transaction_pooler pooler(server().port());
    const auto backend = open({.connection = server().url_at(pooler.port())});
    std::vector<std::jthread> all;
    for (int i = 0; i < 4; ++i) {
        all.emplace_back([&, i] {
            const std::string key = "k" + std::to_string(i);
            for (int round = 1; round <= 10; ++round) {
                auto lease = backend.acquire(key, {.ttl = 30s});
                ASSERT_TRUE(lease);
                EXPECT_EQ(lease->fence(), fence::from_counter(static_cast<std::uint64_t>(round)));
                EXPECT_FALSE(backend.acquire(key));
                EXPECT_TRUE(lease->extend().ok);
                EXPECT_TRUE(backend.lookup(ownership_lookup{lease->lock_id()}));
                EXPECT_TRUE(lease->release().ok);
            }
        });
    }
    all.clear();
    EXPECT_EQ(server().value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), "0");
}

TEST_F(postgres_refusals, an_acquisition_that_a_pooler_ends_after_its_commit_is_granted) {
    transaction_pooler pooler(server().port());
    const auto backend = open({.connection = server().url_at(pooler.port())});
    // After this call the client sends no names of prepared statements, which another session may
    // not have.
    EXPECT_TRUE(backend.acquire("warm-up")->release().ok);
    for (const std::string sqlstate : {"08P01", "57P01"}) {
        pooler.fail_next_transaction(sqlstate, "k" + sqlstate);
        const auto lease = backend.acquire("k" + sqlstate, {.ttl = 60s});
        ASSERT_TRUE(lease) << sqlstate;
        EXPECT_EQ(
            server().value("SELECT lock_id FROM syncguard_locks WHERE key = 'k" + sqlstate + "'"),
            lease->lock_id().to_string());
    }
}

TEST_F(postgres_refusals, an_acquisition_that_finds_its_own_lock_is_granted) {
    transaction_pooler pooler(server().port());
    const auto backend = open({.connection = server().url_at(pooler.port())});
    // The first acquisition is sent again with the same lock id, the others are looked up.
    for (const std::string sqlstate : {"40001", "08006", "57P01", "58000"}) {
        pooler.refuse_next_transaction(sqlstate, "k" + sqlstate);
        const auto lease = backend.acquire("k" + sqlstate, {.ttl = 60s});
        ASSERT_TRUE(lease) << sqlstate;
        EXPECT_EQ(lease->fence().str(), "000000000000001");
        EXPECT_EQ(
            server().value("SELECT lock_id FROM syncguard_locks WHERE key = 'k" + sqlstate + "'"),
            lease->lock_id().to_string());
    }
}

TEST_F(postgres_refusals,
       a_lease_whose_lock_was_granted_to_its_first_request_ends_before_that_lock) {
    // On the host's clock, as leases are.
    postgres_server running;
    transaction_pooler pooler(running.port());
    fault_proxy proxy(pooler.port());
    const auto backend = open({.connection = running.url_at(proxy.port())});
    EXPECT_TRUE(backend.acquire("warm-up"));
    proxy.delay(direction::to_client, 300ms);
    pooler.refuse_next_transaction("40001", "answered-late");
    auto lease = backend.acquire("answered-late", {.ttl = 5s});
    ASSERT_TRUE(lease);
    const auto left = running.value(
        "SELECT expires_at_ms - floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint "
        "FROM syncguard_locks WHERE key = 'answered-late'");
    EXPECT_LE(lease->remaining(), milliseconds(std::stoll(left)));
}

TEST_F(postgres_refusals,
       a_lease_granted_to_a_request_reported_as_refused_during_its_commit_ends_before_its_lock) {
    // On the host's clock, as leases are.
    postgres_server running;
    running.run(
        "CREATE FUNCTION write_slowly() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_sleep(0.7); RETURN NEW; END $$; "
        "CREATE TRIGGER slowly AFTER INSERT ON syncguard_locks FOR EACH ROW "
        "WHEN (NEW.key = 'slow') EXECUTE FUNCTION write_slowly()");
    transaction_pooler pooler(running.port());
    fault_proxy proxy(pooler.port());
    const auto backend = open({.connection = running.url_at(proxy.port())});
    EXPECT_TRUE(backend.acquire("warm-up"));
    proxy.delay(direction::to_client, 300ms);
    // After this error the client simply sends the request again. The second request finds that the
    // first one still has the key's advisory lock.
    pooler.refuse_next_transaction_early("26000", "slow");
    auto lease = backend.acquire("slow", {.ttl = 5s});
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->fence().str(), "000000000000001");
    const auto left = running.value(
        "SELECT expires_at_ms - floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint "
        "FROM syncguard_locks WHERE key = 'slow'");
    EXPECT_LE(lease->remaining(), milliseconds(std::stoll(left)));
}

TEST_F(postgres_refusals, an_extension_that_a_pooler_ends_is_sent_once_and_fails) {
    transaction_pooler pooler(server().port());
    const auto backend = open({.connection = server().url_at(pooler.port())});
    for (const std::string sqlstate : {"08P01", "57P01"}) {
        const auto id = take(backend, "k" + sqlstate);
        server().run(
            "CREATE SEQUENCE updates; CREATE FUNCTION count_update() RETURNS trigger LANGUAGE "
            "plpgsql AS $$ BEGIN PERFORM nextval('updates'); RETURN NEW; END $$; "
            "CREATE TRIGGER counting BEFORE UPDATE ON syncguard_locks FOR EACH ROW "
            "EXECUTE FUNCTION count_update()");
        pooler.fail_next_transaction(sqlstate, id.to_string());
        expect_error(error_code::service_unavailable,
                     [&] { (void)backend.extend(id, {.ttl = 500ms}); });
        EXPECT_EQ(server().value("SELECT last_value FROM updates"), "1");
        EXPECT_TRUE(backend.extend(id, {.ttl = 30s}).ok);
        server().run(
            "DROP TRIGGER counting ON syncguard_locks; DROP FUNCTION count_update; "
            "DROP SEQUENCE updates");
    }
}

TEST_F(postgres_refusals, errors_name_databases_and_users_but_no_passwords) {
    postgres_server strict(
        {.settings = {}, .host_rules = "host all all 127.0.0.1/32 scram-sha-256\n"});
    strict.run("ALTER ROLE postgres PASSWORD 'right'");
    auto url = strict.url();
    url.replace(url.find("postgres@"), 9, "postgres:right@");
    EXPECT_TRUE(postgres::backend({.connection = url}).acquire("k"));
    url.replace(url.find("right"), 5, "hunter2");
    const auto failure = expect_error(error_code::auth_failed, [&] {
        (void)postgres::backend({.connection = url}).acquire("k");
    });
    EXPECT_EQ(std::string(failure->what()).find("hunter2"), std::string::npos);
    url.replace(url.find(":hunter2"), 8, "");
    expect_error(error_code::auth_failed,
                 [&] { (void)postgres::backend({.connection = url}).acquire("k"); });
}

TEST_F(postgres_refusals, too_many_connections_are_a_rate_limit_only_without_any_connection) {
    postgres_server small({.settings = {"max_connections=5", "superuser_reserved_connections=0",
                                        "max_wal_senders=0"}});
    const postgres::backend first({.connection = small.url()});
    EXPECT_TRUE(first.acquire("k"));
    std::vector<postgres_connection> others;
    for (int i = 0; i < 4; ++i)
        others.push_back(small.connect());
    expect_error(error_code::rate_limited,
                 [&] { (void)postgres::backend({.connection = small.url()}).acquire("other"); });
    // A client that gets only one connection works with it.
    std::vector<std::jthread> crowd;
    for (int i = 0; i < 6; ++i) {
        crowd.emplace_back([&, i] {
            const std::string key = "crowd:" + std::to_string(i);
            for (int round = 0; round < 5; ++round) {
                auto lease = first.acquire(key);
                ASSERT_TRUE(lease);
                EXPECT_TRUE(lease->extend().ok);
                EXPECT_TRUE(lease->release().ok);
            }
        });
    }
}

}  // namespace
}  // namespace syncguard::test
