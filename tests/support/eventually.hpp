/// Waits until a condition is true, instead of sleeping for a fixed time.
#pragma once

#include <chrono>
#include <functional>

namespace syncguard::test {

/// Polls `condition` until it is true; returns false if that takes longer than `patience`.
[[nodiscard]] bool eventually(const std::function<bool()>& condition,
                              std::chrono::milliseconds patience = std::chrono::seconds(20));

}  // namespace syncguard::test
