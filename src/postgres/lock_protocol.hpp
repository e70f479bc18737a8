/// Requests as calls, and rows as outcomes. Pure: no I/O.
#pragma once

#include "call.hpp"
#include "statements.hpp"

#include <syncguard/engine.hpp>

#include <string>

namespace syncguard::postgres {

/// Throws `lock_error` (invalid_argument) for a key that the server cannot store.
[[nodiscard]] call encode(const request& what, const statements& sql, bool cleanup);

/// Whether an acquisition was answered that somebody else has the key.
[[nodiscard]] bool is_locked(const row& answer);

/// Whether this is no answer yet: others are acquiring the same key, and the call has to wait for
/// them, alone.
[[nodiscard]] bool has_to_wait(const request& what, const row& answer);

/// What the server answered to `what`. Throws `lock_error` for an answer that makes no sense;
/// messages name the server by `where`.
[[nodiscard]] outcome decode(const request& what, const row& answer, const std::string& where);

/// Asks whether an acquisition, of which nothing was heard, has been performed.
[[nodiscard]] call encode_resolution(const acquire_request& what, const statements& sql);

/// The release that follows an acquisition of which nothing was heard. It waits behind it, should
/// it still be waiting itself.
[[nodiscard]] call encode_undoing(const lock_id& id, const std::string& key, const statements& sql);

}  // namespace syncguard::postgres
