/// The SQL of the lock protocol. What other writers rely on is written down in docs/storage.md.
#pragma once

#include "table_names.hpp"
#include "transaction.hpp"

#include <string>

namespace syncguard::postgres {

/// A function call that limits how long the transaction waits for others: whoever has stopped to
/// wait must not hold up anybody, nor have his way later.
[[nodiscard]] std::string limit_of_waiting(const std::string& milliseconds);

struct statements {
    explicit statements(const quoted_names& tables);

    /// Waits for the right to acquire a key, at most so many milliseconds: ($1 key, $2 patience).
    statement enter;
    /// Takes that right where nobody has it. Lists ($1 keys, $2 user keys, $3 lock ids, $4 ttls, $5
    /// fence keys; and $6 patience with others who have the rows) give rows (what is left of the
    /// lock that is in the way, whether nobody else is at it, fence, end of the new lock). Without
    /// the first three the fence counter is at its end.
    statement acquire;
    /// A list ($1 lock ids; and $2 patience) gives rows (released): 1, -1 if there was none, -2 if
    /// it had ended.
    statement release;
    /// ($1 lock id, $2 ttl, $3 patience) gives (end, seen).
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
