/// Requests as calls, and rows as outcomes. Pure: no I/O.
#pragma once

#include "postgres/query.hpp"
#include "postgres/statements.hpp"

#include <syncguard/engine.hpp>

#include <optional>
#include <string>

namespace syncguard::postgres {

/// Throws `lock_error` (invalid_argument) for a key that the server cannot store.
[[nodiscard]] call encode(const request& what, const statements& sql, bool cleanup);

/// Whether an acquisition was answered that somebody else has the key.
[[nodiscard]] bool is_locked(const row& answer);

/// Whether this is no answer yet, and nothing was written: others are acquiring the same key, and
/// the call has to wait for them, alone; or its deadline was over by the server's clock, which went
/// ahead since its time was last known.
[[nodiscard]] bool has_to_wait(const request& what, const row& answer);

/// Whether an acquisition found its own lock: an earlier copy of it was performed.
[[nodiscard]] bool was_granted_before(const request& what, const row& answer);

/// What was left of the lock when an extension was performed while a peer was at the key. If it is
/// used up when the answer comes, the peer may have overwritten the lock.
[[nodiscard]] std::optional<milliseconds> time_to_trust(const request& what, const row& answer);

/// What the server answered to `what`. Throws `lock_error` for an answer that makes no sense;
/// messages name the server by `where`.
[[nodiscard]] outcome decode(const request& what, const row& answer, const std::string& where);

/// Asks whether an acquisition, of which nothing was heard, has been performed.
[[nodiscard]] call encode_resolution(const acquire_request& what, const statements& sql);

/// Whether the answer to an undoing is the last word: it has released the lock, or found none at a
/// time after the deadline of the acquisition, which can then not write any more.
[[nodiscard]] bool is_undone(const row& answer, unix_time deadline);

/// The release that follows an acquisition of which nothing was heard. It waits behind it, should
/// it still be waiting itself.
[[nodiscard]] call encode_undoing(const lock_id& id, const std::string& key, const statements& sql);

}  // namespace syncguard::postgres
