/// Tells a process from the one it was forked from.
#pragma once

#include <cstdint>

namespace syncguard {

/// A number that is one greater in a forked child than in its parent. What remembers it can tell
/// that threads, locks and random bytes from before belong to another process.
[[nodiscard]] std::uint32_t fork_generation() noexcept;

}  // namespace syncguard
