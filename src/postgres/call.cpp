#include "call.hpp"

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

}  // namespace

transaction transaction_of(std::span<const call* const> calls, bool alone) {
    const call& first = *calls.front();
    transaction steps;
    if (first.enter != nullptr && (alone || first.always_enters)) {
        steps.push_back({first.enter, first.enter_parameters});
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
