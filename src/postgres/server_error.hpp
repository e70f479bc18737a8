/// What the server's refusals mean. Pure.
#pragma once

#include "postgres/transaction.hpp"

#include <syncguard/error.hpp>

#include <string>
#include <string_view>

namespace syncguard::postgres {

[[nodiscard]] error_code code_of(std::string_view sqlstate) noexcept;

/// Names the server by `where`. Says nothing of what was stored.
[[nodiscard]] lock_error to_lock_error(const refusal& why, const std::string& where);

/// What to do after an error, by which the server has done nothing if not said otherwise.
enum class remedy {
    none,
    again,                ///< Others were in the way: the same again, here or elsewhere.
    again_elsewhere,      ///< This server cannot go on: a new connection may lead to one that can.
    again_without_names,  ///< What was prepared is not there: a pooler has changed the session.
    ask  ///< A pooler speaks, not the server: whether it has done something is not known.
};

[[nodiscard]] remedy remedy_for(std::string_view sqlstate) noexcept;

/// The error of a conflict that occurs only under an isolation stricter than read committed.
inline constexpr std::string_view sqlstate_of_conflict = "40001";

/// The error when the server's lock table is full, which also holds the flags of waiting clients.
inline constexpr std::string_view sqlstate_of_lock_shortage = "53200";

/// Whether memory that all clients of the server share is used up: its lock table, or the queue of
/// notifications, which fills up if a session does not read them.
[[nodiscard]] bool is_shortage(std::string_view sqlstate) noexcept;

/// What libpq says of a connection that could not be made. Its texts have no codes; those of the
/// server are reduced to theirs, as PQERRORS_SQLSTATE does.
[[nodiscard]] lock_error to_connection_error(std::string_view libpq_message,
                                             const std::string& where);

}  // namespace syncguard::postgres
