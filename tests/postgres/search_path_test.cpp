/// Functions, operators, types and relations of another role in the search path: none of them is
/// used with the rights of the library's user.
#include "postgres/on_postgres.hpp"
#include "postgres/statements.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"

#include <syncguard/lock.hpp>

#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

/// Creates in the schema `planted`: each system function under its own name, overloads that may fit
/// the arguments of a call better, all operators between the usual types, and types and relations
/// with the names of the system's. All of them fail with a message that the server logs.
constexpr const char* plant = R"sql(
CREATE SCHEMA planted;
CREATE FUNCTION pg_temp.attempt(sql text) RETURNS void LANGUAGE plpgsql AS
    'BEGIN EXECUTE sql; EXCEPTION WHEN OTHERS THEN NULL; END';
CREATE FUNCTION pg_temp.plant(signature text, result text) RETURNS void LANGUAGE sql AS $$
    SELECT pg_temp.attempt(format('CREATE FUNCTION planted.%s RETURNS %s LANGUAGE plpgsql AS %L',
        signature, result, format('BEGIN RAISE EXCEPTION %L; END', 'foreign code: ' || signature)))
$$;
CREATE TEMP TABLE types AS SELECT unnest('{int2,int4,int8,numeric,float8,bool,text,varchar,name,oid,
    regclass,"\"char\"",text[],name[],int8[]}'::text[]) AS type;

SELECT pg_temp.plant('alarm()', 'bool');
SELECT count(pg_temp.plant(format('%I(%s)', proname, pg_get_function_identity_arguments(oid)),
                           pg_get_function_result(oid)))
FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f';
CREATE AGGREGATE planted.count(*) (SFUNC = planted.int8inc, STYPE = int8, INITCOND = '0');
SELECT count(pg_temp.plant(format('%s(%s)', name, arguments), 'int8'))
FROM unnest('{pg_try_advisory_xact_lock,pg_advisory_xact_lock,pg_try_advisory_lock_shared,
    pg_advisory_lock_shared,pg_advisory_unlock_shared,hashtext,floor,set_config,current_setting,
    pg_notify,min,max,count,lpad,format,to_regclass,obj_description,current_schemas,pg_has_role,
    unnest}'::text[]) AS name,
    (SELECT type FROM types UNION
     SELECT concat(l.type, ',', r.type) FROM types AS l, types AS r) AS a (arguments);
SELECT count(pg_temp.plant(format('operate_%s(%s, %s)', result, l.type, r.type), result)),
    count(pg_temp.attempt(format('CREATE OPERATOR planted.%s (LEFTARG = %s, RIGHTARG = %s, '
        'FUNCTION = planted.operate_%s)', operator, l.type, r.type, result)))
FROM types AS l, types AS r, (VALUES ('=', 'bool'), ('<>', 'bool'), ('<', 'bool'), ('<=', 'bool'),
    ('>', 'bool'), ('>=', 'bool'), ('~', 'bool'), ('+', 'numeric'), ('-', 'numeric'),
    ('*', 'numeric'), ('/', 'numeric'), ('||', 'text')) AS o (operator, result);
SELECT count(pg_temp.attempt(format(
    'CREATE DOMAIN planted.%I AS pg_catalog.%1$I CHECK (planted.alarm())', type)))
FROM unnest('{text,name,oid,regclass,int8,bool}'::text[]) AS type;
SELECT count(pg_temp.attempt(format(
    'CREATE VIEW planted.%I AS SELECT * FROM pg_catalog.%1$I WHERE planted.alarm()', relname)))
FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'v');
GRANT USAGE ON SCHEMA planted TO PUBLIC;
)sql";

/// Search paths with a schema of another role before that of the tables. `pg_catalog` is searched
/// before that schema, which is the default, or after it.
class postgres_search_path : public testing::TestWithParam<std::string> {
  protected:
    [[nodiscard]] static postgres_server& server() {
        static const auto shared = [] {
            auto server = std::make_unique<postgres_server>(
                postgres_server_options{.controlled_clock = true});
            server->run(plant);
            EXPECT_EQ(server->value("SELECT count(*) > 2000 FROM pg_operator "
                                    "WHERE oprnamespace = 'planted'::regnamespace"),
                      "t");
            EXPECT_EQ(server->value("SELECT count(*) > 5000 FROM pg_proc "
                                    "WHERE pronamespace = 'planted'::regnamespace"),
                      "t");
            return server;
        }();
        return *shared;
    }
    postgres_search_path() {
        server().run("TRUNCATE syncguard_locks, syncguard_fence_counters");
        log_before_ = server().log().size();
    }
    ~postgres_search_path() override {
        const auto log = server().log().substr(log_before_);
        const auto at = log.find("foreign code");
        EXPECT_EQ(at, std::string::npos) << log.substr(std::min(at, log.size()), 2000);
    }

    [[nodiscard]] static postgres::backend open(postgres::options store = {}) {
        // Includes settings that the library changes for each transaction.
        store.connection = server().url() + "&options=-c%20search_path%3D" + GetParam() +
                           "%20-c%20default_transaction_isolation%3Dserializable"
                           "%20-c%20statement_timeout%3D1h";
        return postgres::backend(std::move(store));
    }
    static void wait_for_waiting() {
        EXPECT_TRUE(eventually([&] {
            return server().value("SELECT count(*) FROM pg_locks WHERE NOT granted") == "1";
        }));
    }

  private:
    std::size_t log_before_ = 0;
};

TEST_P(postgres_search_path, changes_nothing_for_the_operations_on_a_lock) {
    const auto backend = open();
    auto lease = backend.acquire("k", {.ttl = 30s});
    ASSERT_TRUE(lease);
    EXPECT_FALSE(backend.acquire("k"));
    EXPECT_TRUE(lease->extend().ok);
    EXPECT_TRUE(backend.is_locked("k"));
    EXPECT_TRUE(backend.lookup(key_lookup{"k"}));
    EXPECT_TRUE(backend.lookup(ownership_lookup{lease->lock_id()}));
    EXPECT_TRUE(lease->release().ok);
    EXPECT_FALSE(backend.release(std::string(22, 'A')).ok);
}

TEST_P(postgres_search_path, changes_nothing_for_a_takeover_and_a_cleanup) {
    const auto backend = open({.connection = {}, .cleanup_in_is_locked = true});
    for (const char* each : {"1", "2"}) {
        auto lease = backend.acquire("k", {.ttl = 10s});
        ASSERT_TRUE(lease) << each;
        (void)lease->detach();
        server().advance(1h);
    }
    EXPECT_FALSE(backend.is_locked("k"));
    EXPECT_EQ(server().value("SELECT count(*) FROM syncguard_locks"), "0");
}

TEST_P(postgres_search_path, changes_nothing_if_the_server_is_short_of_memory) {
    auto lease = open().acquire("k", {.ttl = 30s});
    ASSERT_TRUE(lease);
    const auto id = lease->detach().to_string();
    const postgres::statements sql(postgres::checked_names(
        {.locks = "public.syncguard_locks", .fence_counters = "public.syncguard_fence_counters"}));
    auto session = server().connect();
    session.run("SET search_path = " + GetParam());
    const auto extended =
        session.run(sql.extend_without_notify.text, {id, "60000", "9000000000000"});
    EXPECT_EQ(extended.at(0).at(1),
              server().value("SELECT expires_at_ms FROM syncguard_locks WHERE key = 'k'"));
    EXPECT_EQ(session.run(sql.release_without_notify.text, {"{" + id + "}"}).at(0).at(0), "1");
}

TEST_P(postgres_search_path, changes_nothing_for_many_callers_at_once) {
    const auto backend = open();
    std::vector<std::jthread> crowd;
    for (int i = 0; i < 16; ++i) {
        crowd.emplace_back([&, key = "k" + std::to_string(i)] {
            EXPECT_NO_THROW({
                auto lease = backend.acquire(key, {.ttl = 30s});
                ASSERT_TRUE(lease);
                EXPECT_TRUE(lease->release().ok);
            });
        });
    }
}

TEST_P(postgres_search_path, changes_nothing_for_a_caller_that_waits_for_the_key_lock) {
    auto other = server().connect();
    other.run("BEGIN; SELECT pg_advisory_xact_lock(hashtext('k'))");
    const auto backend = open();
    std::jthread waiting([&] { EXPECT_NO_THROW(EXPECT_TRUE(backend.acquire("k"))); });
    wait_for_waiting();
    other.run("COMMIT");
}

TEST_P(postgres_search_path, changes_nothing_for_a_watched_key) {
    const auto backend = open();
    auto held = backend.acquire("k", {.ttl = 600s});
    ASSERT_TRUE(held);
    const auto begin = std::chrono::steady_clock::now();
    std::jthread waiting([&] {
        const lock_options patient{.ttl = 60s,
                                   .timeout = 10min,
                                   .retry = {.max_retries = 3,
                                             .retry_delay = 5min,
                                             .backoff = backoff::fixed,
                                             .jitter = jitter::none}};
        EXPECT_NO_THROW(EXPECT_TRUE(acquire_with_retries(open(), "k", patient).valid()));
    });
    EXPECT_TRUE(eventually([&] {
        return server().value(
                   "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' "
                   "AND objsubid = 2 AND granted") == "1";
    }));
    EXPECT_TRUE(held->extend({.ttl = 60s}).ok);
    EXPECT_TRUE(held->release().ok);
    waiting.join();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 2min);
    EXPECT_TRUE(eventually([&] {
        return server().value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == "0";
    }));
}

TEST_P(postgres_search_path, changes_nothing_for_an_acquisition_of_unknown_outcome) {
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
}

TEST_P(postgres_search_path, changes_nothing_for_a_release_in_the_background) {
    auto other = server().connect();
    other.run("BEGIN; SELECT pg_advisory_xact_lock(hashtext('k'))");
    {
        const auto backend = open();
        std::stop_source stop;
        std::jthread waiting([&] {
            expect_error(error_code::aborted,
                         [&] { (void)backend.acquire("k", {.timeout = 60s}, stop.get_token()); });
        });
        wait_for_waiting();
        stop.request_stop();
        waiting.join();
        other.run("COMMIT");
    }  // the end of a backend waits for its releases in the background
    EXPECT_EQ(server().value("SELECT count(*) FROM syncguard_locks"), "0");
}

TEST_P(postgres_search_path, changes_nothing_for_the_set_up) {
    server().run("DROP TABLE IF EXISTS made_locks, made_counters");
    const postgres::table_names tables{.locks = "public.made_locks",
                                       .fence_counters = "public.made_counters"};
    const auto backend = open({.connection = {}, .tables = tables});
    EXPECT_NO_THROW(backend.setup_schema());
    EXPECT_NO_THROW(open({.connection = {}, .tables = tables}).setup_schema());
    EXPECT_TRUE(backend.acquire("k"));
    EXPECT_EQ(server().value("SELECT obj_description('made_locks'::regclass)"),
              "SyncGuard locks. Fence counters: public.made_counters");
    server().run("DROP TABLE made_locks, made_counters");
    auto by_hand = server().connect();
    by_hand.run("SET search_path = " + GetParam());
    by_hand.run(postgres::schema_sql(tables));
    EXPECT_TRUE(backend.acquire("k"));
}

INSTANTIATE_TEST_SUITE_P(with_another_schema, postgres_search_path,
                         testing::Values("planted,public", "planted,pg_catalog,public"),
                         [](const auto& each) {
                             return each.index == 0 ? "after_the_system" : "before_the_system";
                         });

}  // namespace
}  // namespace syncguard::test
