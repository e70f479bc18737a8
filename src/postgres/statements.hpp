/// The SQL of the lock protocol. What other writers rely on is written down in docs/storage.md.
#pragma once

#include "table_names.hpp"
#include "transaction.hpp"

#include <string>
#include <string_view>

namespace syncguard::postgres {

/// The text with `OPERATOR(pg_catalog.=)` in the place of `{=}`, and so for each operator. An `=`
/// is looked for in the search path, where another role may have put its own, which would run as
/// the user of this library. For the same reason functions, types and relations are named with
/// `pg_catalog`, and what calls an `=` without naming it (USING, IN, NULLIF, BETWEEN, CASE with an
/// operand) is not used. All these operators bind alike, from left to right.
[[nodiscard]] std::string with_system_operators(std::string_view text);

/// A function call that limits how long the transaction waits for others: whoever has stopped to
/// wait must not hold up anybody, nor have his way later.
[[nodiscard]] std::string limit_of_waiting(const std::string& milliseconds);

/// An expression: the server's clock at the moment of asking, in Unix milliseconds.
[[nodiscard]] std::string server_clock();

/// The name of a prepared statement.
[[nodiscard]] std::string statement_name(const std::string& text);

struct statements {
    explicit statements(const quoted_names& tables);

    /// Waits for the right to acquire a key, at most so many milliseconds: ($1 key, $2 patience).
    statement enter;
    /// Takes that right where nobody has it. Lists ($1 keys, $2 user keys, $3 lock ids, $4 ttls, $5
    /// fence keys, $6 deadlines; and $7 patience with others who have the rows) give rows (server's
    /// clock, time left of another's lock, whether the key's right was free and the deadline not
    /// over, fence, end of the lock, whether the lock was there before, whether the fence counter
    /// is negative). Where the second is null and the third true, a null fence tells that the fence
    /// counter is negative or at its end.
    statement acquire;
    /// A list ($1 lock ids; and $2 patience) gives rows (released, nothing, server's clock).
    /// Released: 1, -1 if there was none, -2 if it had ended.
    statement release;
    /// The same without telling those who wait, for a server whose shared memory is used up.
    statement release_unnoticed;
    /// ($1 lock id, $2 ttl, $3 deadline, $4 patience) gives (server's clock, end, seen, whether the
    /// deadline was not over, time that was left of the lock where a peer was at its key).
    statement extend;
    /// The same for a server whose shared memory is used up: as if a peer were at the key, and
    /// without telling those who wait of an earlier end.
    statement extend_unnoticed;
    /// ($1 key) gives a row if it is locked.
    statement is_locked;
    statement is_locked_with_cleanup;
    /// ($1 key) or ($1 lock id) gives (user key, lock id, end, beginning, fence) of a live lock.
    statement lookup_key;
    statement lookup_id;
};

/// Settings for one transaction, as its first steps, where the session has others: those of a role
/// or a database.
struct settings_statements {
    /// Read committed: each statement sees what was committed before it.
    statement isolation;
    /// The deadline of a call is its only limit.
    statement time;

    settings_statements();
};

/// For whoever wants to be told of releases. These are about a session.
struct lookout_statements {
    /// Gives the number of the server's process.
    statement who_serves;
    statement listen;
    statement unlisten;
    /// ($1 keys) gives rows (number of the key in notifications, whether its flag is up): from the
    /// commit on, who releases the key notifies. A flag cannot be had while a release of its key is
    /// under way, or another role has it alone. In the order of the keys.
    statement raise_flags;
    statement lower_flags;

    lookout_statements();
};

/// Of the error by which `acquire` undoes itself where it met a change that it could not foresee.
inline constexpr const char* sqlstate_of_overtaken = "22012";

}  // namespace syncguard::postgres
