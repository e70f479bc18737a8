/// The SQL of the lock protocol. docs/storage.md documents what other writers rely on.
#pragma once

#include "postgres/table_names.hpp"
#include "postgres/transaction.hpp"

#include <string>
#include <string_view>

namespace syncguard::postgres {

/// Replaces `{=}` by `OPERATOR(pg_catalog.=)`, and likewise for each operator. A plain `=` is
/// looked up in the search path, where another role may have defined an operator, which would run
/// with the rights of the user of this library. For the same reason functions, types and relations
/// are named with `pg_catalog`, and constructs that use `=` without naming it (USING, IN, NULLIF,
/// BETWEEN, CASE with an operand) are avoided. All these operators have the same precedence, and
/// associate from left to right.
[[nodiscard]] std::string with_system_operators(std::string_view text);

/// An SQL expression: the server's clock when it is evaluated, in Unix milliseconds.
[[nodiscard]] std::string server_clock();

/// The name of a prepared statement.
[[nodiscard]] std::string statement_name(const std::string& text);

struct statements {
    explicit statements(const quoted_names& tables);

    /// Waits for the advisory lock of a key: ($1 key).
    statement lock_key;
    /// Acquires keys, taking the advisory lock of each key if no transaction holds it. Lists ($1
    /// keys, $2 user keys, $3 lock ids, $4 ttls, $5 fence keys, $6 deadlines) give rows (server's
    /// clock, remaining time of another client's lock, whether the key's advisory lock was free and
    /// the deadline not over, fence, end of the lock, whether the lock existed before, whether the
    /// fence counter is negative). If the second is null and the third true, a null fence means
    /// that the fence counter is negative or has reached its limit.
    statement acquire;
    /// A list ($1 lock ids) gives rows (result, nothing, server's clock). Result: 1 released, -1
    /// not found, -2 expired.
    statement release;
    /// The same without a notification, for a server whose shared memory is exhausted.
    statement release_without_notify;
    /// ($1 lock id, $2 ttl, $3 deadline) gives (server's clock, end, number of rows with the id,
    /// whether the deadline was not over, remaining time of the lock if the advisory lock of its
    /// key was not free).
    statement extend;
    /// The same for a server whose shared memory is exhausted: without the advisory lock of the
    /// key, as if a peer held it, and without a notification of an earlier end.
    statement extend_without_notify;
    /// ($1 key) gives a row if the key is locked.
    statement is_locked;
    statement is_locked_with_cleanup;
    /// ($1 key) or ($1 lock id) gives (user key, lock id, expiry, time of the grant, fence) of a
    /// live lock.
    statement lookup_key;
    statement lookup_id;
};

/// The first statements of a transaction if the role or the database has given the session
/// unsuitable settings.
struct settings_statements {
    /// Read committed: each statement sees what was committed before it.
    statement isolation;
    /// No time limits of the server: the deadline of the call is the only limit.
    statement time;

    settings_statements();
};

/// Statements of the release listener, which apply to a session.
struct listener_sql {
    /// Gives the pid of the server's backend process.
    statement backend_pid;
    statement listen;
    statement unlisten;
    /// ($1 keys) gives rows (number of the key in notifications, whether the interest marker was
    /// added), in the order of the keys. From the commit on, clients that release a key with a
    /// marker notify. A marker cannot be added while a release of its key is in progress, or while
    /// another role holds it in exclusive mode.
    statement add_interest;
    statement remove_interest;

    listener_sql();
};

/// The error of `acquire` if another transaction changed the row after its snapshot: the
/// transaction is rolled back, and the client retries.
inline constexpr const char* sqlstate_concurrent_change = "22012";

}  // namespace syncguard::postgres
