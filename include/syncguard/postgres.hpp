/// Locks shared through a PostgreSQL server, also with SyncGuard programs in other languages.
#pragma once

#include <syncguard/backend.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

namespace syncguard::postgres {

struct capabilities {
    static constexpr std::string_view backend = "postgres";
    static constexpr bool supports_fencing = true;
    static constexpr syncguard::time_authority time_authority = syncguard::time_authority::server;
};

/// Names of tables, each with or without its schema (`app.locks`). They are SQL identifiers as one
/// writes them without quotes: letters, digits and `_`, in any case. All programs that share locks
/// use the same two tables. A name without schema is looked up in the search path when a backend
/// first connects, and must be there once. Other counters than the default ones in the schema of
/// the locks must be named in the comment of the table of locks, where `setup_schema` writes them
/// when it makes the tables (see docs/storage.md).
struct table_names {
    std::string locks = "syncguard_locks";
    std::string fence_counters = "syncguard_fence_counters";
};

struct options {
    /// What libpq understands: `postgres://user:password@host:port/database?sslmode=...`, or
    /// `host=... dbname=...`. Several hosts are tried in turn until one satisfies
    /// `target_session_attrs`, which is `read-write` by default: a standby may lag behind and not
    /// know the latest locks. Missing values come from the environment (PGHOST, ...), a service
    /// file or a password file, as with every libpq program. `target_session_attrs=any` in a
    /// service file counts as missing.
    std::string connection{};

    table_names tables{};

    /// The maximum number of connections for concurrent operations; further operations wait. In
    /// addition, one connection is reserved for extensions, so that renewals do not wait behind
    /// other operations, and one listens for releases once a caller has waited for a lock. While
    /// other sessions keep an operation waiting on every connection of the pool, releases and
    /// operations on other keys use the reserved connection, too, after extensions. A client
    /// that only waits has one connection, and none while the server refuses it for having too many
    /// clients. If a call was cancelled or took too long, its connection is kept until the answer
    /// comes, for up to five seconds; there may be up to `pool_size` such connections in addition.
    std::size_t pool_size = 10;

    /// How long making a connection may take, over all hosts. A `connect_timeout` in `connection`
    /// (in seconds) comes first.
    milliseconds connect_timeout{5'000};
    /// How long an operation may wait for its answer once it was sent. Unset: as long as its call.
    std::optional<milliseconds> statement_timeout{};

    /// Lets `is_locked` remove the row of a lock that ended more than two seconds ago by the
    /// server's clock. Fence counters are never removed. With it, `is_locked` writes.
    bool cleanup_in_is_locked = false;
};

/// Reads a URL `postgres://...` or `postgresql://...` with the options of libpq and, beside them,
/// `locks_table`, `fence_counters_table`, `pool_size`, `connect_timeout_ms`,
/// `statement_timeout_ms` and `cleanup_in_is_locked` (true or false). Throws `lock_error`
/// (invalid_argument) that says what is wrong without repeating the URL.
[[nodiscard]] options parse_url(std::string_view url);

/// The SQL that `setup_schema()` runs, for those who migrate by hand. Safe to run again. Throws
/// `lock_error` (invalid_argument) for names that cannot be used.
[[nodiscard]] std::string schema_sql(const table_names& tables = {});

class postgres_engine;

/// Every operation is one transaction in one round trip, on one of a few connections that are made
/// when they are needed. Nothing is kept in a session that an operation relies on: a transaction
/// pooler may stand in between. A blocking caller does the I/O itself, for others too; completions
/// may therefore run on a thread that is inside a call of its own. They must not wait for what such
/// a thread may hold.
///
/// What was granted is as durable as a commit: with the server's usual settings (`fsync` and
/// `synchronous_commit` on) fences rise across its crash.
///
/// Failures name the server: `service_unavailable` if it cannot be reached, shuts down, only reads,
/// or the connection breaks; `auth_failed` for credentials, permissions and certificates;
/// `rate_limited` if it has too many clients; `network_timeout` if no answer came in time;
/// `invalid_argument` if the tables are missing, in several schemas of the search path or not those
/// that belong together, or if the key cannot be stored (a NUL byte).
///
/// If the connection breaks before an answer came, an acquisition is looked up by its lock id, and
/// granted if it is there; a question is repeated; so is a release, which fails if the lock is gone
/// by then, since it is unknown which client released it. An extension fails, and is not sent
/// again. An acquisition that was not waited for, or could not be looked up, is released in the
/// background by its id. The destructor gives such releases up to a second to get through.
///
/// The server performs no acquisition and no extension after the deadline of its call, by its own
/// clock.
class backend : public basic_backend<capabilities> {
  public:
    /// Throws `lock_error` (invalid_argument) for options that cannot be used. Connects to nothing.
    explicit backend(options opts = {}, backend_options common = {});

    /// Makes the tables, where they are missing. May be called again, and by many at once. Throws
    /// as an operation does.
    void setup_schema(const call_options& opts = {}, std::stop_token stop = {}) const;

  private:
    backend(std::shared_ptr<postgres_engine> backing_engine, backend_options common);

    std::shared_ptr<postgres_engine> engine_;
    milliseconds default_timeout_;
};

}  // namespace syncguard::postgres
