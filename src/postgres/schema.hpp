/// SQL that creates the tables.
#pragma once

#include "postgres/table_names.hpp"
#include "postgres/transaction.hpp"

#include <string>
#include <vector>

namespace syncguard::postgres {

/// $1 of `lock_setup`: "SyncGuar" in ASCII, outside the 32-bit range of the numbers of keys.
inline constexpr const char* setup_lock = "6014107353432777074";

/// The statements that create missing tables, in one transaction.
struct schema_statements {
    explicit schema_statements(const quoted_names& tables);

    /// Serialises concurrent setups: IF NOT EXISTS alone does not prevent errors if another client
    /// creates the same table. ($1 lock)
    statement lock_setup;
    /// In this order.
    std::vector<std::string> creations;
    /// Sent after `creations`: PL/pgSQL that records, in the comment of the table of locks, which
    /// counters belong to it.
    std::string note;
    /// All of these as one statement, which does nothing if nothing is missing.
    statement create;
};

/// An SQL expression for the comment of the table with this oid. It does not use the server's
/// function for that, whose body older versions resolve with the search path of the caller.
[[nodiscard]] std::string comment_of_table(const std::string& oid);

/// The beginning of that comment; the counters' schema and name follow.
inline constexpr const char* note_of_counters = "SyncGuard locks. Fence counters: ";

}  // namespace syncguard::postgres
