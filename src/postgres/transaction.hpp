/// Statements and rows of one round trip.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace syncguard::postgres {

/// One statement with its parameters ($1, $2, ...) left open.
struct statement {
    /// For a statement that the server may keep; empty for one that is not worth it. Made from the
    /// text: a client that meets this name in a session finds the same statement under it.
    std::string name;
    std::string text;
};

struct bound_statement {
    const statement* sql;
    std::vector<std::string> parameters;
};

/// Statements that the server performs together or not at all, each with a fresh view of what
/// others have committed meanwhile.
using transaction = std::vector<bound_statement>;

/// One row; no fields where there was none.
using row = std::vector<std::optional<std::string>>;

/// All rows that the last statement returned.
using result_rows = std::vector<row>;

/// An error of the server, which did nothing.
struct server_error {
    std::string sqlstate;
    /// Its text, without the details, which hold values.
    std::string message;
};

}  // namespace syncguard::postgres
