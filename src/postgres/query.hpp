/// The query of one operation, and how queries of the same kind are combined in one transaction.
/// Pure.
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

    /// Whether the parameters of `sql` are lists and it returns a row for each element. Such
    /// queries are batched, if no two have the same first parameter.
    bool is_batchable = false;

    /// Whether the last parameter of `sql` is the time by the server's clock after which it must
    /// not write, and the first column of its answer is the server's clock. Both are in Unix
    /// milliseconds.
    bool has_deadline = false;

    /// Whether `sql` may wait for other transactions that have locked the same rows.
    bool may_wait_for_rows = false;
    /// The maximum time for which `sql` may wait for other transactions.
    milliseconds max_lock_timeout = std::chrono::hours(24);

    /// The statement to send once the server has refused `sql`; null if there is none.
    const statement* fallback = nullptr;
    /// The refusals after which `fallback` is sent. A shortage is one of memory that all clients of
    /// the server share.
    enum class refusals { shortages, all } fallback_after = refusals::shortages;

    /// Takes the advisory lock that serialises acquisitions; null if the query needs none.
    const statement* key_lock_sql = nullptr;
    /// $1 of `key_lock_sql`.
    std::string key_lock{};
    /// Whether `key_lock_sql` is always sent. Otherwise the query is first tried without it; if
    /// that fails, it is sent alone with it.
    bool needs_key_lock = false;
};

/// A query to be sent, and its deadline by the server's clock.
struct timed_query {
    const query* definition;
    unix_time deadline;
};

/// The transaction that performs a batch of queries, or a single one alone, within `time_left`. Its
/// first statement sets lock_timeout for the others, which limits waiting for advisory locks, for
/// rows, and for tables, which the server locks while it parses and plans statements. If a query
/// may wait for long, the sum of its waits is limited to `time_left`.
[[nodiscard]] transaction build_transaction(std::span<const timed_query> queries, bool alone,
                                            milliseconds time_left);

}  // namespace syncguard::postgres
