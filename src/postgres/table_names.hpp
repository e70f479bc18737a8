/// Checks and quotes the names of the tables. Pure.
#pragma once

#include <syncguard/postgres.hpp>

#include <string>

namespace syncguard::postgres {

struct table_name {
    std::string schema;  ///< Empty: found by the server's search path.
    std::string name;

    [[nodiscard]] std::string quoted() const;
    /// The name in messages and comments.
    [[nodiscard]] std::string plain() const { return schema.empty() ? name : schema + "." + name; }
};

/// In lower case, as unquoted names are.
struct table_pair {
    table_name locks;
    table_name fence_counters;
};

/// Throws `lock_error` (invalid_argument) for invalid identifiers, and for names that may refer to
/// the same table.
[[nodiscard]] table_pair checked_tables(const table_names& given);

/// Quoted, so that SQL takes any name as one identifier; in lower case, as unquoted names are.
struct quoted_names {
    std::string locks;
    std::string fence_counters;
    /// The index on the expiry of locks, in the schema of its table.
    std::string expiry_index;
};

/// Throws as `checked_tables` does.
[[nodiscard]] quoted_names checked_names(const table_names& given);

/// Placeholders in statements for tables whose schema is not known yet.
[[nodiscard]] quoted_names placeholders(const table_pair& tables);

/// Replaces the placeholders by the tables.
[[nodiscard]] std::string with_tables(std::string text, const table_pair& tables);

}  // namespace syncguard::postgres
