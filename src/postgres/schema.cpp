#include "postgres/schema.hpp"

#include "postgres/statements.hpp"

#include <array>
#include <string>

namespace syncguard::postgres {

namespace {

/// Creates only missing parts: even if the index exists, CREATE INDEX would wait for all writing
/// transactions, and block other writers until then.
std::string missing_parts(const quoted_names& tables, const std::vector<std::string>& creations,
                          const std::string& note) {
    const auto is_no_table = [](const std::string& name) {
        return "pg_catalog.to_regclass('" + name + "') IS NULL";
    };
    const std::array<std::string, 3> conditions{
        is_no_table(tables.locks),
        "NOT EXISTS (SELECT FROM pg_catalog.pg_index JOIN pg_catalog.pg_attribute "
        "ON attrelid {=} indrelid AND attnum {=} indkey[0] WHERE attname {=} 'expires_at_ms' "
        "AND indrelid {=} pg_catalog.to_regclass('" +
            tables.locks + "'))",
        is_no_table(tables.fence_counters)};
    std::string text = "DO $setup$ BEGIN ";
    for (std::size_t i = 0; i < conditions.size(); ++i)
        text += "IF " + conditions[i] + " THEN " + creations.at(i) + "; END IF; ";
    return with_system_operators(text.append(note).append(" END $setup$"));
}

/// If clients shared the locks but not the counters, fences would not always grow. So the comment
/// of the table of locks names its counters; peers accept a comment. A comment of other origin is
/// not replaced.
std::string note_text(const quoted_names& tables) {
    return with_system_operators(
        "IF (SELECT " + comment_of_table("c.oid") +
        " IS NULL AND (relkind {=} 'r' OR relkind {=} 'p') "
        "AND pg_catalog.pg_has_role(relowner, 'USAGE') FROM pg_catalog.pg_class AS c "
        "WHERE c.oid {=} pg_catalog.to_regclass('" +
        tables.locks +
        "')) THEN EXECUTE pg_catalog.format('COMMENT ON TABLE %s IS %L', "
        "pg_catalog.to_regclass('" +
        tables.locks + "'), '" + note_of_counters +
        "' {||} (SELECT nspname {||} '.' {||} relname FROM pg_catalog.pg_class AS c "
        "JOIN pg_catalog.pg_namespace AS n ON n.oid {=} relnamespace "
        "WHERE c.oid {=} pg_catalog.to_regclass('" +
        tables.fence_counters + "'))); END IF;");
}

}  // namespace

std::string comment_of_table(const std::string& oid) {
    return "(SELECT description FROM pg_catalog.pg_description WHERE objoid {=} " + oid +
           " AND classoid {=} 'pg_catalog.pg_class'::pg_catalog.regclass AND objsubid {=} 0)";
}

schema_statements::schema_statements(const quoted_names& tables)
    : lock_setup{.name = {}, .text = "SELECT pg_catalog.pg_advisory_xact_lock($1::bigint)"},
      creations{"CREATE TABLE IF NOT EXISTS " + tables.locks +
                    " (\n"
                    "    key            pg_catalog.text PRIMARY KEY,\n"
                    "    lock_id        pg_catalog.text NOT NULL UNIQUE,\n"
                    "    expires_at_ms  BIGINT NOT NULL,\n"
                    "    acquired_at_ms BIGINT NOT NULL,\n"
                    "    fence          pg_catalog.text NOT NULL,\n"
                    "    user_key       pg_catalog.text NOT NULL\n"
                    ")",
                "CREATE INDEX IF NOT EXISTS " + tables.expiry_index + " ON " + tables.locks +
                    " (expires_at_ms)",
                "CREATE TABLE IF NOT EXISTS " + tables.fence_counters +
                    " (\n"
                    "    fence_key pg_catalog.text PRIMARY KEY,\n"
                    "    fence     BIGINT NOT NULL DEFAULT 0,\n"
                    "    key_debug pg_catalog.text\n"
                    ")"},
      note(note_text(tables)),
      create{.name = {}, .text = missing_parts(tables, creations, note)} {}

std::string schema_sql(const table_names& tables) {
    const schema_statements sql(checked_names(tables));
    std::string script =
        "-- The tables of SyncGuard. Safe to run again, and by several at the same time.\nBEGIN;\n";
    script.append("SELECT pg_catalog.pg_advisory_xact_lock(").append(setup_lock).append(");\n");
    for (const auto& each : sql.creations)
        script.append(each).append(";\n");
    script.append("DO $setup$ BEGIN ").append(sql.note).append(" END $setup$;\n");
    return script.append("COMMIT;\n");
}

}  // namespace syncguard::postgres
