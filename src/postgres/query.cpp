#include "postgres/query.hpp"

#include "postgres/statements.hpp"
#include "postgres/text_list.hpp"

#include <algorithm>

namespace syncguard::postgres {

namespace {

/// Somebody who is stuck shall not hold up many: the server refuses a list soon, and each goes
/// alone.
constexpr milliseconds patience_of_lists{100};

statement named(const std::string& text) {
    statement complete{.name = {}, .text = with_system_operators(text)};
    complete.name = statement_name(complete.text);
    return complete;
}

// The limits end with the transaction: a pooler may give the session to another client then.

/// ($1 lock_timeout), which limits each wait by itself.
const statement& limit_of_each_wait() {
    static const statement text =
        named("SELECT pg_catalog.set_config('lock_timeout', $1::pg_catalog.text, true)");
    return text;
}

/// ($1 lock_timeout, $2 statement_timeout). The second limits the sum of the waits in one
/// statement, beginning with the next.
const statement& limit_of_all_waits() {
    static const statement text = named(
        "SELECT pg_catalog.set_config('lock_timeout', $1::pg_catalog.text, true), "
        "pg_catalog.set_config('statement_timeout', $2::pg_catalog.text, true)");
    return text;
}

/// ($1 milliseconds from the beginning of the transaction) limits the next statement to what is
/// left of them. The statement before it took hardly longer: if the server's clock says so, it was
/// set meanwhile, and tells nothing.
const statement& limit_of_later_waits() {
    static const statement text = named(
        "SELECT pg_catalog.set_config('statement_timeout', (CASE WHEN passed {>=} 0 "
        "AND passed {<=} ($1::bigint {+} 1000) THEN greatest($1::bigint {-} passed, 1) "
        "ELSE $1::bigint END)::pg_catalog.text, true) "
        "FROM (SELECT pg_catalog.floor(extract(epoch FROM (pg_catalog.clock_timestamp() {-} "
        "pg_catalog.now())) {*} 1000)::bigint AS passed OFFSET 0) AS clock");
    return text;
}

/// How long the server may wait so that it gives up before its client does: then it is known that
/// nothing happened. A single wait ends by `lock_timeout`, whose error names the cause, and several
/// by `statement_timeout`, a little later.
struct limits_of_waiting {
    std::string each_wait;
    std::string statement;
};

limits_of_waiting limits_within(milliseconds time_left, const call& what) {
    // Zero would mean: for ever.
    constexpr milliseconds least{1};
    constexpr milliseconds longest_lead{50};
    constexpr milliseconds longest = std::chrono::hours(24);
    const auto lead = std::min(time_left / 10, longest_lead);
    const auto text = [](milliseconds limit) { return std::to_string(limit.count()); };
    return {.each_wait = text(std::clamp(time_left - lead, least, what.longest_wait)),
            .statement = text(std::clamp(time_left - lead / 2, least, longest))};
}

}  // namespace

transaction transaction_of(std::span<const timed_call> calls, bool alone, milliseconds time_left) {
    const call& first = *calls.front().what;
    const bool is_list = first.takes_lists && !alone && !first.always_enters;
    if (is_list) time_left = std::min(time_left, patience_of_lists);
    const auto limits = limits_within(time_left, first);
    transaction steps;
    if (is_list || (!first.may_wait_for_rows && first.enter == nullptr)) {
        steps.push_back({&limit_of_each_wait(), {limits.each_wait}});
    } else {
        steps.push_back({&limit_of_all_waits(), {limits.each_wait, limits.statement}});
    }
    if (first.enter != nullptr && (alone || first.always_enters)) {
        steps.push_back({first.enter, {first.turn}});
        steps.push_back({&limit_of_later_waits(), {limits.statement}});
    }
    step& last = steps.emplace_back(step{first.what, {}});
    const auto add = [&](const auto& value_of) {
        if (!first.takes_lists) {
            last.parameters.push_back(value_of(calls.front()));
            return;
        }
        text_list list;
        for (const auto& each : calls)
            list.add(value_of(each));
        last.parameters.push_back(list.text());
    };
    for (std::size_t i = 0; i < first.parameters.size(); ++i)
        add([&](const timed_call& each) { return each.what->parameters[i]; });
    if (first.has_deadline) {
        add([](const timed_call& each) {
            return std::to_string(each.deadline.time_since_epoch().count());
        });
    }
    return steps;
}

}  // namespace syncguard::postgres
