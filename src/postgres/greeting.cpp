#include "postgres/greeting.hpp"

#include "postgres/schema.hpp"
#include "postgres/statements.hpp"

#include <syncguard/error.hpp>

#include <charconv>
#include <cstdint>
#include <string_view>

namespace syncguard::postgres {

namespace {

std::string clock_and_settings() {
    return server_clock() +
           ", pg_catalog.current_setting('transaction_isolation') {<>} 'read committed' "
           "OR pg_catalog.current_setting('statement_timeout') {<>} '0' "
           "OR coalesce(pg_catalog.current_setting('transaction_timeout', true), '0') {<>} '0'";
}

/// The schemas that contain such a table, or the one in which it would be created.
std::string schemas_of(const std::string& place) {
    return "(SELECT pg_catalog.count(*) FROM found WHERE place {=} " + place +
           "), (SELECT coalesce(pg_catalog.min(f.nspname::pg_catalog.text), "
           "CASE WHEN pg_catalog.min(w.schema) {<>} '' THEN pg_catalog.min(w.schema) END, "
           "pg_catalog.current_schema()) FROM wanted AS w LEFT JOIN found AS f "
           "ON f.place {=} w.place WHERE w.place {=} " +
           place + ")";
}

[[noreturn]] void throw_unexpected_reply(const std::string& server_name) {
    throw lock_error(error_code::internal,
                     server_name + " gave an answer that does not fit the question");
}

/// A field of the first row.
const std::optional<std::string>& field(const result_rows& answer, std::size_t number,
                                        const std::string& server_name) {
    if (answer.empty() || number >= answer[0].size()) throw_unexpected_reply(server_name);
    return answer[0][number];
}

std::int64_t integer(const result_rows& answer, std::size_t number,
                     const std::string& server_name) {
    const std::string digits = field(answer, number, server_name).value_or("");
    std::int64_t value = 0;
    const auto [end, problem] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (problem != std::errc{} || end != digits.data() + digits.size()) {
        throw_unexpected_reply(server_name);
    }
    return value;
}

[[noreturn]] void refuse(const std::string& message) {
    throw lock_error(error_code::invalid_argument, message);
}

/// Whether the table exists.
bool locate(table_name& table, const result_rows& answer, std::size_t number,
            const std::string& server_name) {
    const auto count = integer(answer, number, server_name);
    if (count > 1) {
        refuse("several schemas of the search path have a table '" + table.name + "' on " +
               server_name +
               ", and other clients may use another one of them; give its name with its schema");
    }
    table.schema = field(answer, number + 1, server_name).value_or("");
    if (table.schema.find_first_of("'\"$\\") != std::string::npos) {
        refuse("the schema of the table '" + table.name + "' on " + server_name +
               " has a quote, a backslash or a '$' in its name; use another schema");
    }
    return count == 1;
}

/// The fence counters that belong to the table of locks: those named in its comment, else the table
/// with the default name in the same schema.
std::string counters_of(const table_name& locks, std::string_view comment) {
    const std::string_view beginning = note_of_counters;
    const auto found = comment.find(beginning);
    if (found == std::string_view::npos) {
        return table_name{.schema = locks.schema, .name = table_names{}.fence_counters}.plain();
    }
    const auto name = comment.substr(found + beginning.size());
    return std::string(name.substr(0, name.find('\n')));
}

}  // namespace

bound_statement ask_for_clock() {
    static const statement question{
        .name = {}, .text = with_system_operators("SELECT " + clock_and_settings())};
    return {&question, {}};
}

bound_statement ask_for_tables(const table_pair& tables) {
    static const statement question{
        .name = {},
        .text = with_system_operators(
            "WITH wanted (place, schema, name) AS (VALUES "
            "(1, $1::pg_catalog.text, $2::pg_catalog.text), "
            "(2, $3::pg_catalog.text, $4::pg_catalog.text)), "
            "found AS (SELECT place, nspname, c.oid FROM wanted JOIN pg_catalog.pg_class AS c "
            "ON relname {=} name JOIN pg_catalog.pg_namespace AS n ON n.oid {=} relnamespace "
            "WHERE nspname {=} schema "
            "OR schema {=} '' AND nspname {=} ANY (pg_catalog.current_schemas(false))) "
            "SELECT " +
            clock_and_settings() + ", " + schemas_of("1") + ", " + schemas_of("2") +
            ", (SELECT pg_catalog.min(" + comment_of_table("oid") +
            ") FROM found WHERE place {=} 1)")};
    return {&question,
            {tables.locks.schema, tables.locks.name, tables.fence_counters.schema,
             tables.fence_counters.name}};
}

unix_time clock_in(const result_rows& answer, const std::string& server_name) {
    // The largest integer up to which a double represents every integer. Real times are far below
    // it, and sums with it do not overflow.
    constexpr std::int64_t max_ms = 9'007'199'254'740'992;
    const auto ms = integer(answer, 0, server_name);
    if (ms < -max_ms || ms > max_ms) throw_unexpected_reply(server_name);
    return unix_time(milliseconds(ms));
}

bool has_unsuitable_settings(const result_rows& answer, const std::string& server_name) {
    return field(answer, 1, server_name) == "t";
}

located_tables tables_in(const result_rows& answer, const table_pair& asked_for,
                         const std::string& server_name) {
    located_tables located{.tables = asked_for};
    const auto& [locks, counters] = located.tables;
    const bool has_locks = locate(located.tables.locks, answer, 2, server_name);
    const bool has_counters = locate(located.tables.fence_counters, answer, 4, server_name);
    located.exist = has_locks && has_counters;
    if (!has_locks) return located;
    const std::string belonging = counters_of(locks, field(answer, 6, server_name).value_or(""));
    if (belonging != counters.plain()) {
        refuse("the locks in '" + locks.plain() + "' on " + server_name +
               " belong to the fence counters in '" + belonging + "', not to those in '" +
               counters.plain() +
               "'; use the same table of counters as the other clients. If all of them use that "
               "one, note it: COMMENT ON TABLE " +
               locks.quoted() + " IS '" + note_of_counters + counters.plain() + "'");
    }
    return located;
}

}  // namespace syncguard::postgres
