#include "schema.hpp"

#include <string>

namespace syncguard::postgres {

namespace {

/// "SyncGuar" as a number: far from the 32-bit ones that the keys of locks have.
constexpr const char* setup_lock = "6014107353432777074";

}  // namespace

std::vector<statement> schema_statements(const quoted_names& tables) {
    // IF NOT EXISTS alone is no help against others who make the same table at the same time.
    return {
        {.name = {}, .text = std::string("SELECT pg_advisory_xact_lock(") + setup_lock + ")"},
        {.name = {},
         .text = "CREATE TABLE IF NOT EXISTS " + tables.locks +
                 " (\n"
                 "    key            TEXT PRIMARY KEY,\n"
                 "    lock_id        TEXT NOT NULL UNIQUE,\n"
                 "    expires_at_ms  BIGINT NOT NULL,\n"
                 "    acquired_at_ms BIGINT NOT NULL,\n"
                 "    fence          TEXT NOT NULL,\n"
                 "    user_key       TEXT NOT NULL\n"
                 ")"},
        {.name = {},
         .text = "CREATE INDEX IF NOT EXISTS " + tables.expiry_index + " ON " + tables.locks +
                 " (expires_at_ms)"},
        {.name = {},
         .text = "CREATE TABLE IF NOT EXISTS " + tables.fence_counters +
                 " (\n"
                 "    fence_key TEXT PRIMARY KEY,\n"
                 "    fence     BIGINT NOT NULL DEFAULT 0,\n"
                 "    key_debug TEXT\n"
                 ")"},
    };
}

std::string schema_sql(const table_names& tables) {
    std::string script =
        "-- The tables of SyncGuard. Safe to run again, and by several at the same time.\nBEGIN;\n";
    for (const auto& each : schema_statements(checked_names(tables)))
        script += each.text + ";\n";
    return script + "COMMIT;\n";
}

}  // namespace syncguard::postgres
