/// Requests as queries, and rows as outcomes. Pure: no I/O.
#pragma once

#include "postgres/query.hpp"
#include "postgres/statements.hpp"

#include <syncguard/engine.hpp>

#include <optional>
#include <string>

namespace syncguard::postgres {

/// Throws `lock_error` (invalid_argument) for a key that the server cannot store.
[[nodiscard]] query encode(const request& req, const statements& sql, bool cleanup);

/// Whether the row says that the key is locked by another client.
[[nodiscard]] bool is_locked(const row& answer);

/// Whether the row is no answer yet and nothing was written: other clients are acquiring the same
/// key, and the query has to wait for them, alone; or its deadline was over by the server's clock,
/// which has stepped forward since it was last read.
[[nodiscard]] bool needs_key_lock(const request& req, const row& answer);

/// Whether an acquisition found its own lock, because an earlier copy was performed.
[[nodiscard]] bool was_granted_before(const request& req, const row& answer);

/// The remaining time of the lock when an extension was performed while a peer held the advisory
/// lock of the key. If more time has passed when the answer comes, the peer may have overwritten
/// the lock.
[[nodiscard]] std::optional<milliseconds> time_to_trust(const request& req, const row& answer);

/// The reply of the server to `req`. Throws `lock_error` for an unexpected reply; messages contain
/// `server_name`.
[[nodiscard]] outcome decode(const request& req, const row& answer, const std::string& server_name);

/// Asks whether an acquisition of unknown outcome has been performed.
[[nodiscard]] query encode_outcome_lookup(const acquire_request& req, const statements& sql);

/// Whether the reply to a background release is final: it has released the lock, or found none at a
/// time after the deadline of the acquisition, which cannot write after it.
[[nodiscard]] bool release_is_final(const row& answer, unix_time deadline);

/// The release after an acquisition of unknown outcome. It waits for the key lock behind the
/// acquisition.
[[nodiscard]] query encode_background_release(const lock_id& id, const std::string& key,
                                              const statements& sql);

}  // namespace syncguard::postgres
