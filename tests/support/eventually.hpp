/// Waiting for something to become true, instead of sleeping and hoping.
#pragma once

#include <chrono>
#include <functional>

namespace syncguard::test {

/// Asks `condition` again and again until it is true; false if that takes longer than `patience`.
[[nodiscard]] bool eventually(const std::function<bool()>& condition,
                              std::chrono::milliseconds patience = std::chrono::seconds(20));

}  // namespace syncguard::test
