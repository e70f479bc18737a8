#include "postgres/query.hpp"

#include "postgres/statements.hpp"
#include "postgres/text_list.hpp"

#include <algorithm>

namespace syncguard::postgres {

namespace {

/// One blocked operation must not delay many others: after this time the server refuses the batch,
/// and each operation is sent alone.
constexpr milliseconds batch_lock_timeout{100};

statement named(const std::string& text) {
    statement complete{.name = {}, .text = with_system_operators(text)};
    complete.name = statement_name(complete.text);
    return complete;
}

// The limits end with the transaction, because a pooler may then give the session to another
// client.

/// ($1 lock_timeout) limits each single wait.
const statement& set_lock_timeout() {
    static const statement text =
        named("SELECT pg_catalog.set_config('lock_timeout', $1::pg_catalog.text, true)");
    return text;
}

/// ($1 lock_timeout, $2 statement_timeout). The second limits the sum of the waits in each later
/// statement.
const statement& set_wait_timeouts() {
    static const statement text = named(
        "SELECT pg_catalog.set_config('lock_timeout', $1::pg_catalog.text, true), "
        "pg_catalog.set_config('statement_timeout', $2::pg_catalog.text, true)");
    return text;
}

/// ($1 milliseconds from the beginning of the transaction) limits the next statement to the
/// remaining time. The previous statement cannot have taken much longer than that: if the server's
/// clock says so, the clock was set meanwhile and is ignored.
const statement& set_remaining_timeout() {
    static const statement text = named(
        "SELECT pg_catalog.set_config('statement_timeout', (CASE WHEN passed {>=} 0 "
        "AND passed {<=} ($1::bigint {+} 1000) THEN greatest($1::bigint {-} passed, 1) "
        "ELSE $1::bigint END)::pg_catalog.text, true) "
        "FROM (SELECT pg_catalog.floor(extract(epoch FROM (pg_catalog.clock_timestamp() {-} "
        "pg_catalog.now())) {*} 1000)::bigint AS passed OFFSET 0) AS clock");
    return text;
}

/// How long the server may wait so that its timeout ends before the client's: then it is certain
/// that nothing happened. A single wait ends by `lock_timeout`, whose error names the cause, and
/// several waits by `statement_timeout`, a little later.
struct wait_limits {
    std::string each_wait;
    std::string statement;
};

wait_limits limits_within(milliseconds time_left, const query& first) {
    // Zero would mean no limit.
    constexpr milliseconds least{1};
    constexpr milliseconds max_lead{50};
    constexpr milliseconds longest = std::chrono::hours(24);
    const auto lead = std::min(time_left / 10, max_lead);
    const auto text = [](milliseconds limit) { return std::to_string(limit.count()); };
    return {.each_wait = text(std::clamp(time_left - lead, least, first.max_lock_timeout)),
            .statement = text(std::clamp(time_left - lead / 2, least, longest))};
}

}  // namespace

transaction build_transaction(std::span<const timed_query> queries, bool alone,
                              milliseconds time_left) {
    const query& first = *queries.front().definition;
    const bool is_list = first.is_batchable && !alone && !first.needs_key_lock;
    if (is_list) time_left = std::min(time_left, batch_lock_timeout);
    const auto limits = limits_within(time_left, first);
    transaction steps;
    if (is_list || (!first.may_wait_for_rows && first.key_lock_sql == nullptr)) {
        steps.push_back({&set_lock_timeout(), {limits.each_wait}});
    } else {
        steps.push_back({&set_wait_timeouts(), {limits.each_wait, limits.statement}});
    }
    if (first.key_lock_sql != nullptr && (alone || first.needs_key_lock)) {
        steps.push_back({first.key_lock_sql, {first.key_lock}});
        steps.push_back({&set_remaining_timeout(), {limits.statement}});
    }
    bound_statement& last = steps.emplace_back(bound_statement{first.sql, {}});
    const auto add = [&](const auto& value_of) {
        if (!first.is_batchable) {
            last.parameters.push_back(value_of(queries.front()));
            return;
        }
        text_list list;
        for (const auto& each : queries)
            list.add(value_of(each));
        last.parameters.push_back(list.text());
    };
    for (std::size_t i = 0; i < first.parameters.size(); ++i)
        add([&](const timed_query& each) { return each.definition->parameters[i]; });
    if (first.has_deadline) {
        add([](const timed_query& each) {
            return std::to_string(each.deadline.time_since_epoch().count());
        });
    }
    return steps;
}

}  // namespace syncguard::postgres
