/// Maps the server's errors to `lock_error` and to retries. Pure.
#pragma once

#include "postgres/transaction.hpp"

#include <syncguard/error.hpp>

#include <string>
#include <string_view>

namespace syncguard::postgres {

[[nodiscard]] error_code code_of(std::string_view sqlstate) noexcept;

/// The message contains `server_name`, and no stored values.
[[nodiscard]] lock_error to_lock_error(const server_error& error, const std::string& server_name);

/// What to do after an error. Unless stated otherwise, the server has done nothing.
enum class retry_action {
    fail,
    retry,             ///< A conflict with other transactions: send the same again.
    reconnect,         ///< This server cannot write: a new connection may reach one that can.
    retry_unprepared,  ///< A prepared statement is missing: a pooler has changed the session.
    outcome_unknown    ///< The error may come from a pooler: the server may have committed.
};

[[nodiscard]] retry_action retry_action_for(std::string_view sqlstate) noexcept;

/// A conflict that occurs only at an isolation level stricter than read committed.
inline constexpr std::string_view sqlstate_serialization_failure = "40001";

/// The server's lock table is full, which also holds the interest markers of waiting clients.
inline constexpr std::string_view sqlstate_out_of_shared_memory = "53200";

/// Whether memory that all clients of the server share is exhausted: its lock table, or the queue
/// of notifications, which fills up if a session does not read them.
[[nodiscard]] bool is_shortage(std::string_view sqlstate) noexcept;

/// The error for libpq's message about a connection that could not be made. libpq's own texts have
/// no codes; errors of the server consist of their code only, because of PQERRORS_SQLSTATE.
[[nodiscard]] lock_error to_connection_error(std::string_view libpq_message,
                                             const std::string& server_name);

}  // namespace syncguard::postgres
