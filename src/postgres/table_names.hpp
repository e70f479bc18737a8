/// The names of tables, checked, and as SQL wants them. Pure.
#pragma once

#include <syncguard/postgres.hpp>

#include <string>

namespace syncguard::postgres {

struct table_name {
    std::string schema;  ///< Empty: one of the search path of the server.
    std::string name;

    [[nodiscard]] std::string quoted() const;
    /// As messages and comments name it.
    [[nodiscard]] std::string plain() const { return schema.empty() ? name : schema + "." + name; }
};

/// In lower case, as names are that are not quoted.
struct table_pair {
    table_name locks;
    table_name fence_counters;
};

/// Throws `lock_error` (invalid_argument) for what is no identifier, and for names that may mean
/// the same table.
[[nodiscard]] table_pair checked_tables(const table_names& given);

/// Quoted, so that no name means anything but itself; in lower case, as unquoted names are.
struct quoted_names {
    std::string locks;
    std::string fence_counters;
    /// Of the index on the ends of locks; it lies in the schema of its table.
    std::string expiry_index;
};

/// Throws as `checked_tables` does.
[[nodiscard]] quoted_names checked_names(const table_names& given);

/// What stands in a statement for tables whose schema is not known yet.
[[nodiscard]] quoted_names placeholders(const table_pair& tables);

/// The text with the tables in the place of the placeholders.
[[nodiscard]] std::string with_tables(std::string text, const table_pair& tables);

}  // namespace syncguard::postgres
