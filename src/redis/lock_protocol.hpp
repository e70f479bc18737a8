/// Requests as arguments of the lock script, and its replies as outcomes. Pure: no I/O.
#pragma once

#include "redis/key_space.hpp"
#include "redis/script_call.hpp"

#include <syncguard/engine.hpp>

#include <string>

namespace syncguard::redis {

/// Throws `lock_error` (invalid_argument) for a reserved key.
[[nodiscard]] script_args encode(const request& req, const key_space& keys, bool cleanup);

/// The reply of the script to `req`. Throws `lock_error` if it is an error, or not a reply that the
/// script gives; messages contain `server_name`.
[[nodiscard]] outcome decode(const request& req, const script_reply& reply,
                             const std::string& server_name);

}  // namespace syncguard::redis
