/// Decides which requests have priority.
#pragma once

#include <syncguard/engine.hpp>

#include <variant>

namespace syncguard::net {

/// True for extensions and releases, which keep or release a lock that was granted before.
[[nodiscard]] inline bool has_priority(const request& req) noexcept {
    return std::holds_alternative<extend_request>(req) ||
           std::holds_alternative<release_request>(req);
}

}  // namespace syncguard::net
