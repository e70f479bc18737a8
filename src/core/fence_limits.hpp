/// What happens when a fence counter nears its end. Shared by all engines.
#pragma once

#include <syncguard/fence.hpp>
#include <syncguard/options.hpp>

#include <cstdint>
#include <string_view>

namespace syncguard {

/// The token of a counter that was just raised. Throws `lock_error` (internal) beyond
/// `fence::max_counter`: call it before anything is written.
[[nodiscard]] fence checked_fence(std::uint64_t counter);

/// Tells the operator if `granted` is beyond `fence::warn_counter`. Names the key by its hash.
void warn_if_fence_runs_out(const fence& granted, std::string_view key,
                            const warning_handler& on_warning) noexcept;

}  // namespace syncguard
