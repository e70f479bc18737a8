#include "call.hpp"

#include <algorithm>

namespace syncguard::postgres {

namespace {

void append_element(std::string& list, const std::string& element) {
    list.append(list.empty() ? "{\"" : ",\"");
    for (const char each : element) {
        if (each == '"' || each == '\\') list.push_back('\\');
        list.push_back(each);
    }
    list.push_back('"');
}

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
        std::string list;
        for (const call* const each : calls)
            append_element(list, each->parameters[i]);
        last.parameters.push_back(list.append("}"));
    }
    return steps;
}

}  // namespace syncguard::postgres
