/// Creation of the tables: explicit, repeatable, by many clients at once, under other names.
#include "postgres/on_postgres.hpp"
#include "support/cancelled_thread.hpp"
#include "support/expect_error.hpp"

#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

class postgres_schema : public on_postgres {
  protected:
    static std::string columns_of(const std::string& table) {
        return server().value(
            "SELECT string_agg(column_name || ' ' || data_type || ' ' || is_nullable || ' ' || "
            "coalesce(column_default, ''), ', ' ORDER BY ordinal_position) "
            "FROM information_schema.columns WHERE table_name = '" +
            table + "'");
    }
    static std::string indexes_of(const std::string& table) {
        return server().value(
            "SELECT string_agg(regexp_replace(indexdef, '.* USING', ''), ';' "
            "ORDER BY indexdef) FROM pg_indexes WHERE tablename = '" +
            table + "'");
    }
    [[nodiscard]] static postgres::backend open_named(std::string locks, std::string counters) {
        return open({.connection = {},
                     .tables = {.locks = std::move(locks), .fence_counters = std::move(counters)}});
    }
};

TEST_F(postgres_schema, is_that_of_peers) {
    open_named("made_locks", "made_counters").setup_schema();
    EXPECT_EQ(columns_of("made_locks"), columns_of("syncguard_locks"));
    EXPECT_EQ(columns_of("made_counters"), columns_of("syncguard_fence_counters"));
    EXPECT_EQ(indexes_of("made_locks"), indexes_of("syncguard_locks"));
    EXPECT_EQ(indexes_of("made_counters"), indexes_of("syncguard_fence_counters"));
}

TEST_F(postgres_schema, setup_may_be_repeated_and_keeps_stored_data) {
    const auto backend = open();
    backend.setup_schema();
    take(backend, "k");
    backend.setup_schema();
    EXPECT_TRUE(backend.is_locked("k"));
}

TEST_F(postgres_schema, a_cancelled_thread_ends_after_its_setup) {
    EXPECT_TRUE(returns_on_cancelled_thread([] { open().setup_schema(); }));
}

TEST_F(postgres_schema, many_may_set_up_at_once) {
    std::vector<std::jthread> all;
    for (int i = 0; i < 8; ++i) {
        all.emplace_back(
            [] { EXPECT_NO_THROW(open_named("crowd_locks", "crowd_counters").setup_schema()); });
    }
    all.clear();
    EXPECT_TRUE(open_named("crowd_locks", "crowd_counters").acquire("k"));
}

TEST_F(postgres_schema, if_nothing_is_missing_setup_does_not_wait_and_needs_no_rights) {
    server().run(
        "CREATE ROLE user_of_tables LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON "
        "syncguard_locks, syncguard_fence_counters TO user_of_tables");
    auto url = server().url();
    url.replace(url.find("postgres@"), 8, "user_of_tables");
    auto writer = server().connect();
    writer.run(
        "BEGIN; INSERT INTO syncguard_fence_counters VALUES ('x', 1); "
        "LOCK TABLE syncguard_locks IN ROW EXCLUSIVE MODE");
    EXPECT_NO_THROW(open({.connection = url}).setup_schema());
    writer.run("ROLLBACK");
    const auto failure = expect_error(error_code::auth_failed, [&] {
        open({.connection = url, .tables = {.locks = "none_yet"}}).setup_schema();
    });
    EXPECT_NE(std::string(failure->what()).find("CREATE"), std::string::npos);
}

TEST_F(postgres_schema, setup_reports_unusable_tables) {
    server().run(
        "CREATE TABLE without_keys (LIKE syncguard_locks); "
        "CREATE TABLE of_others (key TEXT); CREATE VIEW seen AS SELECT 1; "
        "CREATE ROLE stranger LOGIN");
    for (const std::string locks : {"without_keys", "of_others", "seen", "no_schema.locks"}) {
        const auto failure = expect_error(error_code::invalid_argument, [&] {
            open_named(locks, "syncguard_fence_counters").setup_schema();
        });
        ASSERT_TRUE(failure) << locks;
        EXPECT_NE(std::string(failure->what()).find(";"), std::string::npos) << failure->what();
    }
    auto url = server().url();
    url.replace(url.find("postgres@"), 8, "stranger");
    expect_error(error_code::auth_failed, [&] { open({.connection = url}).setup_schema(); });
    EXPECT_EQ(server().value("SELECT count(*) FROM syncguard_fence_counters"), "0");
}

TEST_F(postgres_schema, setup_succeeds_if_a_peer_creates_the_tables_meanwhile) {
    // The peer does not take this library's lock, and has not finished when the set-up begins.
    auto peer = server().connect();
    peer.run(
        "BEGIN; CREATE TABLE raced_locks (key TEXT PRIMARY KEY, lock_id TEXT NOT NULL UNIQUE, "
        "expires_at_ms BIGINT NOT NULL, acquired_at_ms BIGINT NOT NULL, fence TEXT NOT NULL, "
        "user_key TEXT NOT NULL)");
    std::jthread ours([] {
        EXPECT_NO_THROW(open_named("raced_locks", "syncguard_fence_counters").setup_schema());
    });
    while (server().value("SELECT count(*) FROM pg_locks WHERE NOT granted") == "0")
        std::this_thread::yield();
    peer.run("COMMIT");
    ours.join();
    EXPECT_TRUE(open_named("raced_locks", "syncguard_fence_counters").acquire("k"));
}

TEST_F(postgres_schema, is_never_created_by_an_operation_and_its_absence_is_reported) {
    server().run("DROP TABLE IF EXISTS absent_locks, absent_counters");
    const auto backend = open_named("absent_locks", "absent_counters");
    const auto failure =
        expect_error(error_code::invalid_argument, [&] { (void)backend.acquire("k"); });
    EXPECT_NE(std::string(failure->what()).find("setup_schema()"), std::string::npos);
    EXPECT_EQ(server().value("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'absent%'"), "0");
    // Operations succeed on the same connections once the tables exist.
    backend.setup_schema();
    EXPECT_TRUE(backend.acquire("k"));
}

TEST_F(postgres_schema, names_may_be_long_and_name_another_schema) {
    server().run("CREATE SCHEMA IF NOT EXISTS app");
    const auto backend = open_named("App.Locks", "app.counters");
    backend.setup_schema();
    EXPECT_TRUE(backend.acquire("k"));
    EXPECT_EQ(server().value("SELECT count(*) FROM app.counters"), "1");

    const std::string longest(63, 'x');
    const auto other = open_named(longest, "y");
    other.setup_schema();
    EXPECT_TRUE(other.acquire("k"));
    EXPECT_NE(indexes_of(longest).find("(expires_at_ms)"), std::string::npos);
}

TEST_F(postgres_schema, tables_of_the_same_names_in_two_schemas_of_the_search_path_are_refused) {
    server().run(
        "CREATE ROLE alice LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON "
        "syncguard_locks, syncguard_fence_counters TO alice");
    auto url = server().url();
    url.replace(url.find("postgres@"), 8, "alice");
    const auto before = open({.connection = url});
    const auto id = take(before, "k");
    server().run(
        "CREATE SCHEMA alice AUTHORIZATION alice; "
        "CREATE TABLE alice.syncguard_locks (LIKE public.syncguard_locks INCLUDING ALL); "
        "CREATE TABLE alice.syncguard_fence_counters "
        "(LIKE public.syncguard_fence_counters INCLUDING ALL); "
        "GRANT ALL ON ALL TABLES IN SCHEMA alice TO alice");
    // A client that has found its tables keeps using them.
    EXPECT_TRUE(before.extend(id).ok);
    EXPECT_FALSE(before.acquire("k"));
    const auto after = open({.connection = url});
    const auto failure =
        expect_error(error_code::invalid_argument, [&] { (void)after.acquire("k"); });
    ASSERT_TRUE(failure);
    EXPECT_NE(std::string(failure->what()).find("schema"), std::string::npos) << failure->what();
    EXPECT_EQ(server().value("SELECT count(*) FROM alice.syncguard_locks"), "0");
    const auto named = open({.connection = url,
                             .tables = {.locks = "public.syncguard_locks",
                                        .fence_counters = "public.syncguard_fence_counters"}});
    EXPECT_FALSE(named.acquire("k"));
    server().run("DROP SCHEMA alice CASCADE");
    EXPECT_FALSE(after.acquire("k"));
}

TEST_F(postgres_schema, one_table_of_locks_is_used_with_one_table_of_counters) {
    open_named("shared_locks", "first_counters").setup_schema();
    server().run("CREATE TABLE second_counters (LIKE first_counters INCLUDING ALL)");
    const auto first = open_named("shared_locks", "first_counters");
    EXPECT_TRUE(first.acquire("k"));
    const auto second = open_named("shared_locks", "second_counters");
    const auto failure =
        expect_error(error_code::invalid_argument, [&] { (void)second.acquire("k"); });
    ASSERT_TRUE(failure);
    EXPECT_NE(std::string(failure->what()).find("first_counters"), std::string::npos)
        << failure->what();
    expect_error(error_code::invalid_argument, [&] { second.setup_schema(); });
    EXPECT_TRUE(open_named("public.shared_locks", "public.first_counters").acquire("k"));
}

TEST_F(postgres_schema, created_manually_is_the_same) {
    const std::string script =
        postgres::schema_sql({.locks = "hand_locks", .fence_counters = "hand_counters"});
    server().run(script);
    server().run(script);
    EXPECT_EQ(columns_of("hand_locks"), columns_of("syncguard_locks"));
    EXPECT_TRUE(open_named("hand_locks", "hand_counters").acquire("k"));
    server().run("CREATE TABLE other_counters (LIKE hand_counters INCLUDING ALL)");
    expect_error(error_code::invalid_argument,
                 [&] { (void)open_named("hand_locks", "other_counters").acquire("k"); });
}

TEST_F(postgres_schema,
       without_a_note_the_counters_have_the_default_name_in_the_schema_of_the_locks) {
    // Tables as peers create them.
    server().run(
        "CREATE TABLE peers_locks (LIKE syncguard_locks INCLUDING ALL); "
        "CREATE TABLE peers_counters (LIKE syncguard_fence_counters INCLUDING ALL)");
    EXPECT_TRUE(open_named("peers_locks", "syncguard_fence_counters").acquire("k"));
    const auto other = open_named("peers_locks", "peers_counters");
    const auto failure =
        expect_error(error_code::invalid_argument, [&] { (void)other.acquire("k"); });
    ASSERT_TRUE(failure);
    // The set-up does not know which counters the peers use, either.
    expect_error(error_code::invalid_argument, [&] { other.setup_schema(); });
    EXPECT_EQ(server().value("SELECT coalesce(obj_description('peers_locks'::regclass), 'none')"),
              "none");

    const std::string message = failure->what();
    const auto begin = message.find("COMMENT ON TABLE");
    ASSERT_NE(begin, std::string::npos) << message;
    server().run(message.substr(begin));
    EXPECT_TRUE(open_named("peers_locks", "peers_counters").acquire("other"));
    expect_error(error_code::invalid_argument,
                 [&] { (void)open_named("peers_locks", "syncguard_fence_counters").acquire("k"); });
}

TEST_F(postgres_schema, an_existing_comment_is_kept_and_may_contain_the_note) {
    server().run(
        "CREATE TABLE noted_locks (LIKE syncguard_locks INCLUDING ALL); "
        "CREATE TABLE noted_counters (LIKE syncguard_fence_counters INCLUDING ALL); "
        "COMMENT ON TABLE noted_locks IS 'ours'");
    const auto by_default = open_named("noted_locks", "syncguard_fence_counters");
    by_default.setup_schema();
    EXPECT_EQ(server().value("SELECT obj_description('noted_locks'::regclass)"), "ours");
    EXPECT_TRUE(by_default.acquire("k"));
    const auto named = open_named("noted_locks", "noted_counters");
    expect_error(error_code::invalid_argument, [&] { (void)named.acquire("k"); });
    server().run(
        "COMMENT ON TABLE noted_locks IS "
        "E'ours\\nSyncGuard locks. Fence counters: public.noted_counters\\nand yours'");
    EXPECT_TRUE(named.acquire("other"));
    expect_error(error_code::invalid_argument,
                 [&] { (void)open_named("noted_locks", "syncguard_fence_counters").acquire("k"); });
}

TEST(postgres_table_names, that_are_no_identifiers_are_refused) {
    for (const std::string bad :
         {"", "a b", "1a", "a;drop", "a\"b", "a.b.c", ".a", "a.", "\xC3\xA9", "a-b",
          "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
          "xxxxxxxxxx"}) {
        expect_error(error_code::invalid_argument,
                     [&] { (void)postgres::schema_sql({.locks = bad, .fence_counters = "ok"}); });
        expect_error(error_code::invalid_argument, [&] {
            postgres::backend({.connection = {}, .tables = {.locks = "ok", .fence_counters = bad}});
        });
    }
}

TEST(postgres_table_names, that_may_name_the_same_table_are_refused) {
    using pair = std::pair<std::string, std::string>;
    for (const auto& [locks, counters] :
         {pair{"same", "same"}, pair{"Same", "sAME"}, pair{"a.same", "same"},
          pair{"same", "a.same"}, pair{"a.same", "A.same"}}) {
        expect_error(error_code::invalid_argument, [&] {
            (void)postgres::schema_sql({.locks = locks, .fence_counters = counters});
        });
    }
    EXPECT_NO_THROW((void)postgres::schema_sql({.locks = "a.same", .fence_counters = "b.same"}));
}

}  // namespace
}  // namespace syncguard::test
