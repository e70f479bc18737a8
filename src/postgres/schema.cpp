#include "schema.hpp"

#include <string>

namespace syncguard::postgres {

namespace {

/// "SyncGuar" as a number: far from the 32-bit ones that the keys of locks have.
constexpr const char* setup_lock = "6014107353432777074";

std::string joined(const std::vector<std::string>& all) {
    std::string text = "DO $setup$ BEGIN ";
    for (const auto& each : all)
        text.append(each).append("; ");
    return text.append("END $setup$");
}

}  // namespace

schema_statements::schema_statements(const quoted_names& tables)
    : enter{.name = {}, .text = std::string("SELECT pg_advisory_xact_lock(") + setup_lock + ")"},
      creations{"CREATE TABLE IF NOT EXISTS " + tables.locks +
                    " (\n"
                    "    key            TEXT PRIMARY KEY,\n"
                    "    lock_id        TEXT NOT NULL UNIQUE,\n"
                    "    expires_at_ms  BIGINT NOT NULL,\n"
                    "    acquired_at_ms BIGINT NOT NULL,\n"
                    "    fence          TEXT NOT NULL,\n"
                    "    user_key       TEXT NOT NULL\n"
                    ")",
                "CREATE INDEX IF NOT EXISTS " + tables.expiry_index + " ON " + tables.locks +
                    " (expires_at_ms)",
                "CREATE TABLE IF NOT EXISTS " + tables.fence_counters +
                    " (\n"
                    "    fence_key TEXT PRIMARY KEY,\n"
                    "    fence     BIGINT NOT NULL DEFAULT 0,\n"
                    "    key_debug TEXT\n"
                    ")"},
      create{.name = {}, .text = joined(creations)} {}

std::string schema_sql(const table_names& tables) {
    const schema_statements sql(checked_names(tables));
    std::string script =
        "-- The tables of SyncGuard. Safe to run again, and by several at the same time.\nBEGIN;\n";
    script.append(sql.enter.text).append(";\n");
    for (const auto& each : sql.creations)
        script.append(each).append(";\n");
    return script.append("COMMIT;\n");
}

}  // namespace syncguard::postgres
