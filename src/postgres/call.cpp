#include "call.hpp"

#include "statements.hpp"
#include "text_list.hpp"

#include <algorithm>

namespace syncguard::postgres {

namespace {

/// Somebody who is stuck shall not hold up many: the server refuses a list soon, and each goes
/// alone.
constexpr milliseconds patience_of_lists{100};

/// The limit ends with the transaction: a pooler may give the session to another client then.
const statement& limit_of_waiting() {
    static const std::string text = "SELECT pg_catalog.set_config('lock_timeout', $1, true)";
    static const statement named{.name = statement_name(text), .text = text};
    return named;
}

std::string longest_wait(const call& what, milliseconds time_left) {
    // A little less, so that the server gives up before its client does: then it is known that
    // nothing happened. Zero would mean: for ever.
    constexpr milliseconds least{1};
    constexpr milliseconds longest_lead{50};
    const auto before_the_end = time_left - std::min(time_left / 10, longest_lead);
    return std::to_string(std::clamp(before_the_end, least, what.longest_wait).count());
}

}  // namespace

transaction transaction_of(std::span<const timed_call> calls, bool alone, milliseconds time_left) {
    const call& first = *calls.front().what;
    if (first.takes_lists && !alone) time_left = std::min(time_left, patience_of_lists);
    transaction steps{{&limit_of_waiting(), {longest_wait(first, time_left)}}};
    if (first.enter != nullptr && (alone || first.always_enters)) {
        steps.push_back({first.enter, {first.turn}});
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
