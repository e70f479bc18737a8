/// Handshake queries of a connection: the server's clock, the settings of the session, and the
/// schemas of the tables. No I/O.
#pragma once

#include "postgres/table_names.hpp"
#include "postgres/transaction.hpp"

#include <syncguard/time.hpp>

#include <string>

namespace syncguard::postgres {

/// Asks for the clock and the settings; used once the schemas of the tables are known.
[[nodiscard]] bound_statement ask_for_clock();

/// Asks for the clock, the settings and the schemas.
[[nodiscard]] bound_statement ask_for_tables(const table_pair& tables);

/// The first column of an answer. Throws `lock_error`; messages contain `server_name`.
[[nodiscard]] unix_time clock_in(const result_rows& answer, const std::string& server_name);

/// Whether the session isolates transactions more strictly than read committed, or limits the time
/// of statements or transactions. Throws `lock_error`.
[[nodiscard]] bool has_unsuitable_settings(const result_rows& answer,
                                           const std::string& server_name);

struct located_tables {
    table_pair tables;  ///< With their schemas. For a missing table, the schema in which it would
                        ///< be created.
    bool exist = false;
};

/// The answer to `ask_for_tables`. Throws `lock_error` (invalid_argument) if several schemas of the
/// search path contain a table of the name, since another client may find another one; or if the
/// locks belong to other counters.
[[nodiscard]] located_tables tables_in(const result_rows& answer, const table_pair& asked_for,
                                       const std::string& server_name);

}  // namespace syncguard::postgres
