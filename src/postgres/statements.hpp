/// The SQL of the lock protocol. What other writers rely on is written down in docs/storage.md.
#pragma once

#include "table_names.hpp"
#include "transaction.hpp"

#include <string>

namespace syncguard::postgres {

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
    /// over, fence, end of the lock, whether the lock was there before). Where the second is null
    /// and the third true, a null fence tells that the fence counter is at its end.
    statement acquire;
    /// A list ($1 lock ids; and $2 patience) gives rows (released, nothing, server's clock).
    /// Released: 1, -1 if there was none, -2 if it had ended.
    statement release;
    /// ($1 lock id, $2 ttl, $3 deadline, $4 patience) gives (server's clock, end, seen, whether the
    /// deadline was not over, time that was left of the lock where a peer was at its key).
    statement extend;
    /// ($1 key) gives a row if it is locked.
    statement is_locked;
    statement is_locked_with_cleanup;
    /// ($1 key) or ($1 lock id) gives (user key, lock id, end, beginning, fence) of a live lock.
    statement lookup_key;
    statement lookup_id;
};

/// For whoever wants to be told of releases. These are about a session.
struct lookout_statements {
    /// Gives the number of the server's process.
    statement who_serves;
    statement listen;
    statement unlisten;
    /// ($1 keys): from the commit on, who releases one of them notifies.
    statement raise_flags;
    statement lower_flags;

    lookout_statements();
};

/// Of the error by which `acquire` undoes itself where it met a change that it could not foresee.
inline constexpr const char* sqlstate_of_overtaken = "22012";

}  // namespace syncguard::postgres
