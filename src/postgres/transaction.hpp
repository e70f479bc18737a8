/// Statements and rows of one round trip.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace syncguard::postgres {

/// A statement with unbound parameters ($1, $2, ...).
struct statement {
    /// The name of the prepared statement; empty if the statement is not prepared. Derived from the
    /// text, so that the same name in a session is always the same statement.
    std::string name;
    std::string text;
};

struct bound_statement {
    const statement* sql;
    std::vector<std::string> parameters;
};

/// Statements that the server performs together or not at all. Each has a new snapshot of what
/// other transactions have committed.
using transaction = std::vector<bound_statement>;

/// One row; without fields if the server returned no row.
using row = std::vector<std::optional<std::string>>;

/// All rows that the last statement returned.
using result_rows = std::vector<row>;

/// An error of the server, which did nothing.
struct server_error {
    std::string sqlstate;
    /// The text without the details, which contain values.
    std::string message;
};

}  // namespace syncguard::postgres
