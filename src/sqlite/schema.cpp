#include "sqlite/schema.hpp"

#include <syncguard/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace syncguard::sqlite {

namespace {

// The table names contain the version, so that statements of older versions fail after a migration.
constexpr const char* locks_table = R"sql(
CREATE TABLE syncguard_locks_v2 (
    key            TEXT PRIMARY KEY,
    lock_id        TEXT NOT NULL UNIQUE,
    boot_id        TEXT NOT NULL,
    began_boot_ms  INTEGER NOT NULL,
    ends_boot_ms   INTEGER NOT NULL,
    expires_at_ms  INTEGER NOT NULL,
    acquired_at_ms INTEGER NOT NULL,
    fence          TEXT NOT NULL,
    user_key       TEXT NOT NULL,
    holder         TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX syncguard_locks_v2_ends_boot_ms ON syncguard_locks_v2 (ends_boot_ms);
)sql";

constexpr const char* counters_table = R"sql(
CREATE TABLE syncguard_fence_counters_v2 (
    fence_key TEXT PRIMARY KEY,
    fence     INTEGER NOT NULL DEFAULT 0,
    key_debug TEXT
) STRICT, WITHOUT ROWID;
)sql";

enum class content { empty, older, current };

/// Determines the content of the file. Throws if it is not a usable lock file. Call it inside a
/// transaction: between two queries another process could create the tables.
content inspect(database& file) {
    const std::string owner = file.query("PRAGMA application_id");
    const std::string version = file.query("PRAGMA user_version");
    if (owner == std::to_string(application_id)) {
        if (std::stoll(version) > schema_version) {
            throw lock_error(error_code::invalid_argument,
                             "the lock file '" + file.path().string() +
                                 "' was written by a newer SyncGuard (schema " + version +
                                 ", this one knows " + std::to_string(schema_version) +
                                 "); upgrade this program. The file was left as it is");
        }
        return std::stoll(version) < schema_version ? content::older : content::current;
    }
    const bool untouched =
        owner == "0" && version == "0" && file.query("SELECT count(*) FROM sqlite_schema") == "0";
    if (!untouched) {
        throw lock_error(error_code::invalid_argument,
                         "the file '" + file.path().string() +
                             "' is a database of another program; it was left as it is. Choose "
                             "another file");
    }
    return content::empty;
}

}  // namespace

bool has_current_schema(database& file) {
    if (file.schema_version() == schema_version) return true;
    return inspect(file) == content::current;
}

namespace {

/// Schema 1 has only wall times, which are converted to boot times.
void migrate_locks(database& file, const host_clock& clock) {
    const host_time now = clock.now();
    const std::int64_t wall_now = clock.wall_now().time_since_epoch().count();
    statement copy(file,
                   "INSERT INTO syncguard_locks_v2 SELECT key, lock_id, ?1, ?2, "
                   "?2 + expires_at_ms - ?3 + iif(expires_at_ms > ?3 - ?4, ?4, 0), "
                   "expires_at_ms, acquired_at_ms, fence, user_key, NULL FROM syncguard_locks");
    copy.run(std::string_view(now.boot_id), now.boot_ms, wall_now,
             static_cast<std::int64_t>(time_tolerance.count()));
    file.execute(
        "DROP TABLE syncguard_locks; "
        "ALTER TABLE syncguard_fence_counters RENAME TO syncguard_fence_counters_v2");
}

}  // namespace

void ensure_schema(database& file, const host_clock& clock) {
    content found{};
    {
        const transaction reading(file, transaction::kind::read);
        found = inspect(file);
    }
    file.execute("PRAGMA journal_mode = WAL");
    if (file.query("PRAGMA journal_mode") != "wal") {
        throw lock_error(
            error_code::service_unavailable,
            "the lock file '" + file.path().string() +
                "' cannot be used safely where it is: its file system does not support "
                "write-ahead logging. Use a local disk");
    }
    file.execute("PRAGMA synchronous = FULL");
    if (found == content::current) return;

    transaction changing(file, transaction::kind::write);
    found = inspect(file);
    if (found == content::current) return;
    file.execute(locks_table);
    if (found == content::older) {
        migrate_locks(file, clock);
    } else {
        file.execute(counters_table);
        file.execute("PRAGMA application_id = " + std::to_string(application_id));
    }
    file.execute("PRAGMA user_version = " + std::to_string(schema_version));
    changing.commit();
}

}  // namespace syncguard::sqlite
