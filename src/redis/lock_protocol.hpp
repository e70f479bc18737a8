/// Requests as input of the lock script, and its replies as outcomes. Pure: no I/O.
#pragma once

#include "redis/key_space.hpp"
#include "redis/script_call.hpp"

#include <syncguard/engine.hpp>

#include <string>

namespace syncguard::redis {

/// Throws `lock_error` (invalid_argument) for a reserved key.
[[nodiscard]] script_input encode(const request& what, const key_space& keys, bool cleanup);

/// What the script answered to `what`. Throws `lock_error` if it is an error, or not an answer that
/// the script gives; messages name the server by `where`.
[[nodiscard]] outcome decode(const request& what, const script_reply& reply,
                             const std::string& where);

}  // namespace syncguard::redis
