#include "call.hpp"

#include "text_list.hpp"

#include <algorithm>

namespace syncguard::postgres {

namespace {

step enter(const call& what, milliseconds time_left) {
    step waiting{what.enter, {}};
    if (what.turn.empty()) return waiting;
    // A little less, so that the server gives up before its client does: then it is known that
    // nothing happened. Zero would mean: for ever.
    constexpr milliseconds least{1};
    constexpr milliseconds most{std::chrono::hours(24)};
    constexpr milliseconds longest_lead{50};
    const auto patience = time_left - std::min(time_left / 10, longest_lead);
    waiting.parameters = {what.turn, std::to_string(std::clamp(patience, least, most).count())};
    return waiting;
}

}  // namespace

transaction transaction_of(std::span<const call* const> calls, bool alone, milliseconds time_left) {
    const call& first = *calls.front();
    transaction steps;
    if (first.enter != nullptr && (alone || first.always_enters)) {
        steps.push_back(enter(first, time_left));
    }
    if (!first.takes_lists) {
        steps.push_back({first.what, first.parameters});
        return steps;
    }
    step& last = steps.emplace_back(step{first.what, {}});
    for (std::size_t i = 0; i < first.parameters.size(); ++i) {
        text_list list;
        for (const call* const each : calls)
            list.add(each->parameters[i]);
        last.parameters.push_back(list.text());
    }
    return steps;
}

}  // namespace syncguard::postgres
