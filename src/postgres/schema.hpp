/// The tables.
#pragma once

#include "postgres/table_names.hpp"
#include "postgres/transaction.hpp"

#include <string>
#include <vector>

namespace syncguard::postgres {

/// $1 of `lock_setup`. "SyncGuar" as a number: far from the 32-bit ones that the keys of locks
/// have.
inline constexpr const char* setup_lock = "6014107353432777074";

/// What makes the tables where they are missing, in one transaction.
struct schema_statements {
    explicit schema_statements(const quoted_names& tables);

    /// Several who do it at the same time wait for each other: IF NOT EXISTS alone is no help
    /// against others who make the same table. ($1 lock)
    statement lock_setup;
    /// In this order.
    std::vector<std::string> creations;
    /// Then this, in PL/pgSQL, which notes at the table of locks which counters belong to it.
    std::string note;
    /// The same as one statement, which does nothing where nothing is missing.
    statement create;
};

/// An SQL expression for the comment of the table with this oid. In older versions the body of the
/// server's own function for it is resolved with the search path of the caller.
[[nodiscard]] std::string comment_of_table(const std::string& oid);

/// How that note begins; the counters' schema and name follow.
inline constexpr const char* note_of_counters = "SyncGuard locks. Fence counters: ";

}  // namespace syncguard::postgres
