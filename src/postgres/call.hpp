/// What one operation asks of the server, and how several that ask the same travel together. Pure.
#pragma once

#include "transaction.hpp"

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

    /// For what has to wait its turn on the server; null where nothing has to.
    const statement* enter = nullptr;
    std::vector<std::string> enter_parameters{};
    /// Whether it has to from the first. Else it is tried without, and alone with it if that fails.
    bool always_enters = false;
};

/// The transaction that performs calls together, or one of them alone.
[[nodiscard]] transaction transaction_of(std::span<const call* const> calls, bool alone);

}  // namespace syncguard::postgres
