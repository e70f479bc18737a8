#include "schema.hpp"

#include <syncguard/error.hpp>

#include <string>

namespace syncguard::sqlite {

namespace {

constexpr const char* tables = R"sql(
CREATE TABLE syncguard_locks (
    key            TEXT PRIMARY KEY,
    lock_id        TEXT NOT NULL UNIQUE,
    expires_at_ms  INTEGER NOT NULL,
    acquired_at_ms INTEGER NOT NULL,
    fence          TEXT NOT NULL,
    user_key       TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX syncguard_locks_expires_at_ms ON syncguard_locks (expires_at_ms);
CREATE TABLE syncguard_fence_counters (
    fence_key TEXT PRIMARY KEY,
    fence     INTEGER NOT NULL DEFAULT 0,
    key_debug TEXT
) STRICT, WITHOUT ROWID;
)sql";

enum class content { empty, current };

/// What the file is. Throws if it is not for us. Call it inside a transaction: between two of its
/// questions another process could make the tables.
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
        return content::current;
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

void ensure_schema(database& file) {
    content found{};
    {
        const transaction reading(file, transaction::kind::read);
        found = inspect(file);
    }
    file.execute_patiently("PRAGMA journal_mode = WAL");
    if (file.query("PRAGMA journal_mode") != "wal") {
        throw lock_error(
            error_code::service_unavailable,
            "the lock file '" + file.path().string() +
                "' cannot be used safely where it is: its file system does not support "
                "write-ahead logging. Use a local disk");
    }
    file.execute("PRAGMA synchronous = FULL");
    if (found == content::current) return;

    transaction creating(file, transaction::kind::write);
    if (inspect(file) == content::current) return;
    file.execute(tables);
    file.execute("PRAGMA application_id = " + std::to_string(application_id));
    file.execute("PRAGMA user_version = " + std::to_string(schema_version));
    creating.commit();
}

}  // namespace syncguard::sqlite
