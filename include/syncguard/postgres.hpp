/// Locks on a PostgreSQL server, shared also with SyncGuard programs in other languages.
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

/// Names of tables, each with or without its schema (`app.locks`). They are SQL identifiers without
/// quotes: letters, digits and `_`, upper or lower case. All programs that share locks must use the
/// same two tables. A name without schema is looked up in the search path when a backend first
/// connects, and must be in exactly one schema of it. If the table of counters does not have its
/// default name, or is not in the schema of the locks, the comment of the table of locks must name
/// it; `setup_schema` writes this comment when it creates the tables (see docs/storage.md).
struct table_names {
    std::string locks = "syncguard_locks";
    std::string fence_counters = "syncguard_fence_counters";
};

struct options {
    /// A connection string of libpq: `postgres://user:password@host:port/database?sslmode=...`, or
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

    /// The timeout of connecting, over all hosts. A `connect_timeout` in `connection` (in seconds)
    /// has precedence.
    milliseconds connect_timeout{5'000};
    /// How long an operation that was sent may wait for its answer. Unset: until the deadline of
    /// its call.
    std::optional<milliseconds> statement_timeout{};

    /// Lets `is_locked` remove the row of a lock that ended more than two seconds ago by the
    /// server's clock. Fence counters are never removed. With this option, `is_locked` writes.
    bool cleanup_in_is_locked = false;
};

/// Reads a URL `postgres://...` or `postgresql://...` with the options of libpq and, beside them,
/// `locks_table`, `fence_counters_table`, `pool_size`, `connect_timeout_ms`, `statement_timeout_ms`
/// and `cleanup_in_is_locked` (true or false). Throws `lock_error` (invalid_argument), whose
/// message does not contain the URL.
[[nodiscard]] options parse_url(std::string_view url);

/// The SQL that `setup_schema()` runs, for migrations by hand. Safe to run again. Throws
/// `lock_error` (invalid_argument) for names that cannot be used.
[[nodiscard]] std::string schema_sql(const table_names& tables = {});

class postgres_engine;

/// Every operation is one transaction in one round trip, on one of a few connections that are made
/// when they are needed. No operation relies on session state, so a transaction pooler may be used.
/// A blocking caller may do the I/O of all callers; completion handlers may therefore run on a
/// thread that is inside an unrelated call. They must not wait for a mutex or other resource that
/// such a thread may hold.
///
/// A grant is as durable as a commit: with the server's usual settings (`fsync` and
/// `synchronous_commit` on) fences also rise across a crash of the server.
///
/// Messages of failures name the server: `service_unavailable` if the server cannot be reached,
/// shuts down or is read-only, or if the connection breaks; `auth_failed` for credentials,
/// permissions and certificates; `rate_limited` if the server has too many clients;
/// `network_timeout` if no answer came in time; `invalid_argument` if the tables are missing, exist
/// in several schemas of the search path or do not belong together, or if the key cannot be stored
/// (a NUL byte).
///
/// If the connection breaks before an answer came, the engine looks up an acquisition by its lock
/// id, and grants it if it is there. It repeats read-only operations and releases; a repeated
/// release fails if the lock is gone by then, since it is unknown which client released it. An
/// extension fails, and is not sent again. If the caller no longer waits for an acquisition, or it
/// could not be looked up, the lock is released in the background by its id. The destructor waits
/// up to a second for such releases.
///
/// The server performs no acquisition and no extension after the deadline of its call, by its own
/// clock.
class backend : public basic_backend<capabilities> {
  public:
    /// Throws `lock_error` (invalid_argument) for options that cannot be used. Opens no connection.
    explicit backend(options opts = {}, backend_options common = {});

    /// Creates the tables that are missing. May be called again, and by several clients at once.
    /// Throws as an operation does.
    void setup_schema(const call_options& opts = {}, std::stop_token stop = {}) const;

  private:
    backend(std::shared_ptr<postgres_engine> backing_engine, backend_options common);

    std::shared_ptr<postgres_engine> engine_;
    milliseconds default_timeout_;
};

}  // namespace syncguard::postgres
