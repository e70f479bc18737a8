/// The query of one operation, and how several of a kind form one transaction. Pure.
#pragma once

#include "postgres/transaction.hpp"

#include <syncguard/time.hpp>

#include <chrono>
#include <span>
#include <string>
#include <vector>

namespace syncguard::postgres {

struct query {
    const statement* sql;
    std::vector<std::string> parameters;

    /// Whether `sql` takes lists of parameters and returns a row for each of them. Such queries are
    /// batched, if no two have the same first parameter.
    bool is_batchable = false;

    /// Whether the last parameter of `sql` is the time of the server's clock after which it must
    /// not write. It answers with that clock in its first column. Both are in Unix milliseconds.
    bool has_deadline = false;

    /// Whether `sql` may wait for other transactions that have the same rows.
    bool may_wait_for_rows = false;
    /// How long it may wait for other transactions at most.
    milliseconds max_lock_timeout = std::chrono::hours(24);

    /// The statement to send once the server has refused `sql`; null if there is none.
    const statement* fallback = nullptr;
    /// The refusals after which `fallback` is sent. Shortages are those of memory that all clients
    /// of the server share.
    enum class refusals { shortages, all } fallback_after = refusals::shortages;

    /// Takes the advisory lock that serialises acquisitions; null if the query needs none.
    const statement* key_lock_sql = nullptr;
    /// $1 of `key_lock_sql`.
    std::string key_lock{};
    /// Whether `key_lock_sql` is always sent. Else the query is tried without it, and alone with it
    /// if that fails.
    bool needs_key_lock = false;
};

/// A query on its way, and its deadline by the server's clock.
struct timed_query {
    const query* definition;
    unix_time deadline;
};

/// The transaction that performs a batch of queries, or one of them alone, with so much time left.
/// Its first statement sets lock_timeout for the others: for advisory locks, for rows, and for
/// tables, which the server locks while it parses and plans them. Where a call may wait for long,
/// all its waits together end within that time.
[[nodiscard]] transaction build_transaction(std::span<const timed_query> queries, bool alone,
                                            milliseconds time_left);

}  // namespace syncguard::postgres
