/// The upper limit of fence counters. Shared by all engines.
#pragma once

#include <syncguard/fence.hpp>

#include <cstdint>

namespace syncguard {

/// The token of a fence counter that was just incremented. Throws `lock_error` (internal) beyond
/// `fence::max_counter`: call it before anything is written.
[[nodiscard]] fence checked_fence(std::uint64_t counter);

}  // namespace syncguard
