/// The layout of the lock file. This is its only description; docs/storage.md explains it.
#pragma once

#include "database.hpp"

namespace syncguard::sqlite {

/// The version in `PRAGMA user_version`. A file with a greater one is refused.
inline constexpr int schema_version = 1;

/// "SyGd": marks a file as a SyncGuard lock file in `PRAGMA application_id`.
inline constexpr int application_id = 0x53794764;

/// Makes an empty file into a lock file; accepts one that already is; refuses everything else
/// without changing it. Safe when many processes do it at once. Throws `lock_error`.
void ensure_schema(database& file);

}  // namespace syncguard::sqlite
