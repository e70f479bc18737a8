/// What one operation asks of the server, and how several that ask the same travel together. Pure.
#pragma once

#include "postgres/transaction.hpp"

#include <syncguard/time.hpp>

#include <chrono>
#include <span>
#include <string>
#include <vector>

namespace syncguard::postgres {

struct call {
    const statement* what;
    std::vector<std::string> parameters;

    /// Whether `what` takes lists of parameters and answers with a row for each of them. Such calls
    /// travel together, if no two have the same first parameter.
    bool takes_lists = false;

    /// Whether the last parameter of `what` is the time of the server's clock after which it must
    /// not write. It answers with that clock in its first column. Both are in Unix milliseconds.
    bool has_deadline = false;

    /// Whether `what` may wait for other transactions that have the same rows.
    bool may_wait_for_rows = false;
    /// How long it may wait for other transactions at most.
    milliseconds longest_wait = std::chrono::hours(24);

    /// The statement to send once the server has refused `what`; null if there is none.
    const statement* fallback = nullptr;
    /// The refusals after which `fallback` is sent. Shortages are those of memory that all clients
    /// of the server share.
    enum class refusals { shortages, all } fallback_after = refusals::shortages;

    /// For what has to wait its turn on the server; null where nothing has to.
    const statement* enter = nullptr;
    /// The parameter of `enter`: behind whom.
    std::string turn{};
    /// Whether it has to from the first. Else it is tried without, and alone with it if that fails.
    bool always_enters = false;
};

/// A call on its way, and its deadline by the server's clock.
struct timed_call {
    const call* what;
    unix_time deadline;
};

/// The transaction that performs calls together, or one of them alone, with so much time left. Its
/// first statement limits how long the others wait on the server: for advisory locks, for rows, and
/// for tables, which the server locks while it parses and plans them. Where a call may wait for
/// long, all its waits together end within that time.
[[nodiscard]] transaction transaction_of(std::span<const timed_call> calls, bool alone,
                                         milliseconds time_left);

}  // namespace syncguard::postgres
