/// The first queries on a connection: the server's clock, the settings of the session, and the
/// schemas of the tables. No I/O.
#pragma once

#include "postgres/table_names.hpp"
#include "postgres/transaction.hpp"

#include <syncguard/time.hpp>

#include <string>

namespace syncguard::postgres {

/// Asks for the clock and the settings, if the schemas of the tables are known.
[[nodiscard]] step ask_for_clock();

/// Asks for the clock, the settings and the schemas.
[[nodiscard]] step ask_for_tables(const table_pair& tables);

/// The first column of an answer. Throws `lock_error`; messages name the server by `where`.
[[nodiscard]] unix_time clock_in(const row_list& answer, const std::string& where);

/// Whether the session isolates transactions more strictly than read committed, or limits the time
/// of statements or transactions. Throws `lock_error`.
[[nodiscard]] bool has_unsuitable_settings(const row_list& answer, const std::string& where);

struct located_tables {
    table_pair tables;  ///< With their schemas; that in which they would be made, if they are not.
    bool exist = false;
};

/// The answer to `ask_for_tables`. Throws `lock_error` (invalid_argument) if several tables of the
/// search path have the name, since another client may find another one; or if the locks belong to
/// other counters.
[[nodiscard]] located_tables tables_in(const row_list& answer, const table_pair& asked_for,
                                       const std::string& where);

}  // namespace syncguard::postgres
