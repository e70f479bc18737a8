#include "statements.hpp"

#include <syncguard/fence.hpp>
#include <syncguard/key.hpp>
#include <syncguard/time.hpp>

#include <string>

namespace syncguard::postgres {

namespace {

/// The server's clock at the moment of asking: now() would be the begin of the transaction, before
/// any waiting.
std::string now_ms() {
    return "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
}

std::string tolerance() {
    return std::to_string(time_tolerance.count());
}

/// How long after its end a lock may be removed. An extension that is under way does not come
/// later.
constexpr const char* cleanup_guard = "2000";

std::string last_fence() {
    return std::to_string(fence::max_counter);
}

std::string live() {
    return "expires_at_ms > " + now_ms() + " - " + tolerance();
}

statement named(std::string text) {
    std::string name = "syncguard_" + hash_key(text);
    return {.name = std::move(name), .text = std::move(text)};
}

std::string acquire_text(const quoted_names& tables) {
    // The statement sees what was committed before it began. Whoever has written since then, before
    // this one got the right to, is met by the upsert, which sees all and leaves a live lock alone;
    // so is an extension or removal by lock id, which has the row alone and is waited for. The
    // fence counter was raised for nothing then: the division by nothing undoes it all. So it does
    // where a row was removed while it was waited for, and the time for the new one is from before.
    return "WITH input AS MATERIALIZED (SELECT i.*, "
           "pg_try_advisory_xact_lock(hashtext(i.key)) AS mine FROM "
           "unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[]) "
           "WITH ORDINALITY AS i (key, user_key, lock_id, ttl, fence_key, place)), "
           "clock AS MATERIALIZED (SELECT " +
           limit_of_waiting("$6") + ", " + now_ms() +
           " AS ms), "
           "held AS MATERIALIZED (SELECT l.key, l.expires_at_ms + " +
           tolerance() + " - clock.ms AS left_ms FROM " + tables.locks +
           " AS l, clock WHERE l.key = ANY ($1::text[]) AND l.expires_at_ms > clock.ms - " +
           tolerance() +
           "), "
           "raised AS (INSERT INTO " +
           tables.fence_counters +
           " AS c (fence_key, fence, key_debug) "
           "SELECT i.fence_key, 1, i.user_key FROM input AS i, clock "
           "WHERE i.mine AND NOT EXISTS (SELECT FROM held WHERE held.key = i.key) "
           "ON CONFLICT (fence_key) DO UPDATE SET fence = c.fence + 1 WHERE c.fence < " +
           last_fence() +
           " RETURNING c.fence_key, c.fence), "
           "put AS (INSERT INTO " +
           tables.locks +
           " AS l (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key) "
           "SELECT i.key, i.lock_id, clock.ms + i.ttl, clock.ms, "
           "lpad(raised.fence::text, 15, '0'), i.user_key "
           "FROM input AS i JOIN raised USING (fence_key), clock "
           "ON CONFLICT (key) DO UPDATE SET lock_id = excluded.lock_id, "
           "(expires_at_ms, acquired_at_ms) = "
           "(SELECT later.ms + excluded.expires_at_ms - excluded.acquired_at_ms, later.ms "
           "FROM (SELECT " +
           now_ms() +
           " AS ms OFFSET 0) AS later), "
           "fence = excluded.fence, user_key = excluded.user_key WHERE l.expires_at_ms <= " +
           now_ms() + " - " + tolerance() +
           " RETURNING l.key, l.acquired_at_ms, l.expires_at_ms) "
           "SELECT held.left_ms, i.mine, raised.fence, "
           "CASE WHEN raised.fence IS NULL THEN NULL WHEN put.acquired_at_ms >= " +
           now_ms() + " - " + tolerance() +
           " THEN put.expires_at_ms "
           "ELSE 1 / (SELECT count(*) FROM put WHERE put.acquired_at_ms IS NULL) "
           "END FROM input AS i LEFT JOIN held USING (key) LEFT JOIN raised USING (fence_key) "
           "LEFT JOIN put USING (key) ORDER BY i.place";
}

/// Whoever waits for a key holds its flag, shared, and is told of releases by a notification on the
/// channel. These are the same for all tables: who hears of too much looks for nothing.
constexpr const char* channel = "syncguard";
std::string flag_of(const std::string& key) {
    const std::string kind_of_flags = "1937337955";  // "sync" in ASCII; peers' locks have no kind
    return kind_of_flags + ", hashtext(" + key + ")";
}
/// A flag is up when the release is committed that is under way, which may hang. In milliseconds.
constexpr const char* patience_with_releases = "'4000'";

/// The rows of `mine`: those that have the condition, as they are now that this transaction has
/// them alone, and the time. In the order of their keys, so that no two wait for each other.
std::string rows_of_mine(const quoted_names& tables, const std::string& condition,
                         const std::string& patience) {
    return "locked AS MATERIALIZED (SELECT l.key, l.lock_id, l.expires_at_ms FROM " + tables.locks +
           " AS l, (SELECT " + limit_of_waiting(patience) + " OFFSET 0) AS patience WHERE l." +
           condition +
           " ORDER BY l.key FOR UPDATE OF l), "
           "clock AS MATERIALIZED (SELECT count(*), " +
           now_ms() +
           " AS ms FROM locked), "
           "mine AS MATERIALIZED (SELECT key, lock_id, ms FROM locked, clock "
           "WHERE expires_at_ms > ms - " +
           tolerance() + ")";
}

constexpr const char* is_mine = "l.key = mine.key AND l.lock_id = mine.lock_id";

std::string release_text(const quoted_names& tables) {
    // A notification makes commits wait for each other: only for who waits. Who raises the flag
    // later does not get it before this transaction has ended, and then sees that the key is free.
    return "WITH " + rows_of_mine(tables, "lock_id = ANY ($1::text[])", "$2") +
           ", gone AS (DELETE FROM " + tables.locks + " AS l USING mine WHERE " + is_mine +
           " RETURNING l.lock_id, l.key) "
           "SELECT CASE WHEN gone.lock_id IS NOT NULL THEN 1 WHEN (SELECT count(*) FROM " +
           tables.locks +
           " AS l WHERE l.lock_id = i.lock_id) > 0 THEN -2 ELSE -1 END, "
           "CASE WHEN NOT pg_try_advisory_xact_lock(" +
           flag_of("gone.key") + ") THEN pg_notify('" + channel +
           "', gone.key) END "
           "FROM unnest($1::text[]) WITH ORDINALITY AS i (lock_id, place) "
           "LEFT JOIN gone USING (lock_id) ORDER BY i.place";
}

std::string extend_text(const quoted_names& tables) {
    return "WITH " + rows_of_mine(tables, "lock_id = $1::text", "$3") + ", extended AS (UPDATE " +
           tables.locks + " AS l SET expires_at_ms = mine.ms + $2::bigint FROM mine WHERE " +
           is_mine +
           " RETURNING l.expires_at_ms) SELECT (SELECT expires_at_ms FROM extended), "
           "(SELECT count(*) FROM " +
           tables.locks + " WHERE lock_id = $1::text)";
}

std::string lookup_text(const quoted_names& tables, const char* column) {
    return std::string("SELECT user_key, lock_id, expires_at_ms, acquired_at_ms, fence FROM ") +
           tables.locks + " WHERE " + column + " = $1::text AND " + live();
}

std::string is_locked_text(const quoted_names& tables) {
    return "SELECT 1 FROM " + tables.locks + " WHERE key = $1::text AND " + live();
}

}  // namespace

std::string limit_of_waiting(const std::string& milliseconds) {
    return "set_config('lock_timeout', " + milliseconds + "::text, true)";
}

statements::statements(const quoted_names& tables)
    // The limit holds for this transaction, the wait that follows included: whoever stops waiting
    // must not be granted a lock later. Functions of a list are called from left to right.
    : enter(named("SELECT " + limit_of_waiting("$2") +
                  ", pg_advisory_xact_lock(hashtext($1::text))")),
      acquire(named(acquire_text(tables))),
      release(named(release_text(tables))),
      extend(named(extend_text(tables))),
      is_locked(named(is_locked_text(tables))),
      // What somebody else works on is left to him: a question must not wait.
      is_locked_with_cleanup(
          named("WITH gone AS (DELETE FROM " + tables.locks + " WHERE key = (SELECT key FROM " +
                tables.locks + " WHERE key = $1::text AND expires_at_ms < " + now_ms() + " - " +
                cleanup_guard + " FOR UPDATE SKIP LOCKED)) " + is_locked_text(tables))),
      lookup_key(named(lookup_text(tables, "key"))),
      lookup_id(named(lookup_text(tables, "lock_id"))) {}

lookout_statements::lookout_statements()
    : who_serves{.name = {}, .text = "SELECT pg_backend_pid()"},
      listen{.name = {}, .text = std::string("LISTEN ") + channel},
      unlisten{.name = {}, .text = std::string("UNLISTEN ") + channel},
      raise_flags{.name = {},
                  .text = "SELECT count(pg_advisory_lock_shared(" + flag_of("key") +
                          ")) FROM unnest($1::text[]) AS key, (SELECT " +
                          limit_of_waiting(patience_with_releases) + " OFFSET 0) AS patience"},
      lower_flags{.name = {},
                  .text = "SELECT count(pg_advisory_unlock_shared(" + flag_of("key") +
                          ")) FROM unnest($1::text[]) AS key"} {}

}  // namespace syncguard::postgres
