/// Query plans: no statement reads a large table from end to end.
#include "postgres/statements.hpp"
#include "support/postgres_server.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace syncguard::test {
namespace {

struct question {
    const postgres::statement& sql;
    std::string parameters;
};

TEST(postgres_plans, read_no_large_table_from_end_to_end) {
    const postgres_server server;
    server.run(
        "INSERT INTO syncguard_locks SELECT 'k' || i, lpad(i::text, 22, 'A'), i, i, "
        "lpad(i::text, 15, '0'), 'k' || i FROM generate_series(1, 100000) AS i; "
        "INSERT INTO syncguard_fence_counters SELECT 'fence:k' || i, i, 'k' || i "
        "FROM generate_series(1, 100000) AS i; ANALYZE");
    const postgres::statements sql(postgres::checked_names({}));
    const std::string keys = "'{k1,k2}', '{k1,k2}', '{AAAAAAAAAAAAAAAAAAAAAB,";
    const std::vector<question> questions{
        {sql.acquire, keys + "AAAAAAAAAAAAAAAAAAAAAC}', '{1000,1000}', '{fence:k1,fence:k2}', "
                             "'{9000000000000,9000000000000}'"},
        {sql.release, "'{AAAAAAAAAAAAAAAAAAAAA1,AAAAAAAAAAAAAAAAAAAAA2}'"},
        {sql.release_without_notify, "'{AAAAAAAAAAAAAAAAAAAAA1,AAAAAAAAAAAAAAAAAAAAA2}'"},
        {sql.extend, "'AAAAAAAAAAAAAAAAAAAAA1', '1000', '9000000000000'"},
        {sql.extend_without_notify, "'AAAAAAAAAAAAAAAAAAAAA1', '1000', '9000000000000'"},
        {sql.is_locked, "'k1'"},
        {sql.is_locked_with_cleanup, "'k1'"},
        {sql.lookup_key, "'k1'"},
        {sql.lookup_id, "'AAAAAAAAAAAAAAAAAAAAA1'"},
    };
    // For a prepared statement, the server first makes a plan for each execution and later a
    // generic plan.
    for (const std::string mode : {"force_custom_plan", "force_generic_plan"}) {
        auto session = server.connect();
        session.run("SET plan_cache_mode = " + mode);
        for (const auto& [statement, parameters] : questions) {
            session.run("PREPARE asked AS " + statement.text);
            std::string plan;
            for (const auto& row : session.run("EXPLAIN EXECUTE asked (" + parameters + ")"))
                plan += *row.at(0) + "\n";
            EXPECT_EQ(plan.find("Seq Scan"), std::string::npos) << mode << ":\n" << plan;
            EXPECT_NE(plan.find("Index"), std::string::npos) << mode << ":\n" << plan;
            session.run("DEALLOCATE asked");
        }
    }
}

}  // namespace
}  // namespace syncguard::test
