/// The layout of the lock file. This is its only description; docs/storage.md explains it.
#pragma once

#include "sqlite/database.hpp"
#include "sqlite/host_clock.hpp"

namespace syncguard::sqlite {

/// The version in `PRAGMA user_version`. A file with a greater one is refused.
inline constexpr int schema_version = 2;

/// "SyGd": marks a file as a SyncGuard lock file in `PRAGMA application_id`.
inline constexpr int application_id = 0x53794764;

/// Initialises an empty file, migrates a lock file of an older version, accepts a current one, and
/// refuses all other files without changing them. Safe if several processes do it at once. Locks
/// that are live by the wall clock at the migration stay locked for the rest of their time plus a
/// second. Throws `lock_error`.
void ensure_schema(database& file, const host_clock& clock);

/// Throws `lock_error` if the file has been migrated by a newer version since it was opened. False
/// if its content is older: it was replaced.
[[nodiscard]] bool has_current_schema(database& file);

}  // namespace syncguard::sqlite
