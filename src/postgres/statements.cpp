#include "statements.hpp"

#include <syncguard/fence.hpp>
#include <syncguard/key.hpp>
#include <syncguard/time.hpp>

#include <string>

namespace syncguard::postgres {

namespace {

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
    return "expires_at_ms > " + server_clock() + " - " + tolerance();
}

statement named(std::string text) {
    std::string name = statement_name(text);
    return {.name = std::move(name), .text = std::move(text)};
}

/// The digits of a stored fence as a number. What is no fence counts as none.
std::string fence_number(const std::string& column) {
    return "CASE WHEN " + column + " ~ '^[0-9]{1,15}$' THEN " + column + "::bigint ELSE 0 END";
}

std::string acquire_text(const quoted_names& tables) {
    // The clock is read after the advisory locks were tried for. So a transaction that has the
    // advisory lock of a key, finds no row and reads a time after the deadline of an acquisition
    // knows that this acquisition has not written and will not write.
    //
    // The statement sees what was committed before it began. Whoever has written since then, before
    // this one got the right to, is met by the upsert, which sees all and leaves a live lock alone;
    // so is an extension or removal by lock id, which has the row alone and is waited for. The
    // fence counter was raised for nothing then: the division by nothing undoes it all. So it does
    // where a row was removed while it was waited for, and the time for the new one is from before;
    // and where the wait for a row lasted until after the deadline.
    return "WITH input AS MATERIALIZED (SELECT i.*, "
           "pg_try_advisory_xact_lock(hashtext(i.key)) AS mine FROM "
           "unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[]) "
           "WITH ORDINALITY AS i (key, user_key, lock_id, ttl, fence_key, deadline, place)), "
           "clock AS MATERIALIZED (SELECT count(*), " +
           limit_of_waiting("$7") + ", " + server_clock() +
           " AS ms FROM input), "
           "stored AS MATERIALIZED (SELECT l.key, l.lock_id, l.expires_at_ms, " +
           fence_number("l.fence") + " AS fence, l.expires_at_ms + " + tolerance() +
           " - clock.ms AS left_ms FROM " + tables.locks +
           " AS l, clock WHERE l.key = ANY ($1::text[])), "
           "held AS (SELECT * FROM stored WHERE left_ms > 0), "
           "raised AS (INSERT INTO " +
           tables.fence_counters +
           " AS c (fence_key, fence, key_debug) "
           "SELECT i.fence_key, coalesce(stored.fence, 0) + 1, i.user_key "
           "FROM input AS i LEFT JOIN stored USING (key), clock "
           "WHERE i.mine AND clock.ms <= i.deadline AND coalesce(stored.left_ms, 0) <= 0 "
           "AND coalesce(stored.fence, 0) < " +
           last_fence() +
           // The counter may have been lost while the lock that got its last fence was stored.
           " ON CONFLICT (fence_key) DO UPDATE SET fence = greatest(c.fence + 1, excluded.fence) "
           "WHERE c.fence < " +
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
           server_clock() +
           " AS ms OFFSET 0) AS later), "
           "fence = excluded.fence, user_key = excluded.user_key WHERE l.expires_at_ms <= " +
           server_clock() + " - " + tolerance() +
           " RETURNING l.key, l.acquired_at_ms, l.expires_at_ms) "
           "SELECT clock.ms, CASE WHEN held.lock_id <> i.lock_id THEN held.left_ms END, "
           "i.mine AND clock.ms <= i.deadline, coalesce(raised.fence, held.fence), "
           "CASE WHEN raised.fence IS NULL THEN held.expires_at_ms WHEN put.acquired_at_ms >= " +
           server_clock() + " - " + tolerance() +
           " AND put.acquired_at_ms <= i.deadline THEN put.expires_at_ms "
           "ELSE 1 / (SELECT count(*) FROM put WHERE put.acquired_at_ms IS NULL) "
           "END, held.lock_id IS NOT NULL FROM clock, input AS i LEFT JOIN held USING (key) "
           "LEFT JOIN raised USING (fence_key) LEFT JOIN put USING (key) ORDER BY i.place";
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
           server_clock() +
           " AS ms FROM locked), "
           "mine AS MATERIALIZED (SELECT key, lock_id, expires_at_ms - ms AS left_ms, ms "
           "FROM locked, clock WHERE expires_at_ms > ms - " +
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
           "', gone.key) END, (SELECT ms FROM clock) "
           "FROM unnest($1::text[]) WITH ORDINALITY AS i (lock_id, place) "
           "LEFT JOIN gone USING (lock_id) ORDER BY i.place";
}

std::string extend_text(const quoted_names& tables) {
    // A peer reads the row under the advisory lock of the key, without locking the row, and then
    // overwrites it. With the advisory lock in hand no peer is between the two until the commit.
    // It is not waited for, since peers take it before they wait for the row. Without it, the end
    // of the lock must not have come when the commit is known.
    return "WITH " + rows_of_mine(tables, "lock_id = $1::text", "$4") +
           ", entered AS MATERIALIZED (SELECT mine.*, "
           "pg_try_advisory_xact_lock(hashtext(key)) AS alone FROM mine "
           "WHERE ms <= $3::bigint), extended AS (UPDATE " +
           tables.locks + " AS l SET expires_at_ms = mine.ms + $2::bigint FROM entered AS mine " +
           "WHERE " + is_mine +
           " AND (mine.alone OR mine.left_ms > 0) RETURNING l.expires_at_ms) "
           "SELECT clock.ms, (SELECT expires_at_ms FROM extended), (SELECT count(*) FROM " +
           tables.locks +
           " WHERE lock_id = $1::text), clock.ms <= $3::bigint, "
           "(SELECT left_ms FROM entered WHERE NOT alone) FROM clock";
}

std::string lookup_text(const quoted_names& tables, const char* column) {
    return std::string("SELECT user_key, lock_id, expires_at_ms, acquired_at_ms, fence FROM ") +
           tables.locks + " WHERE " + column + " = $1::text AND " + live();
}

std::string is_locked_text(const quoted_names& tables) {
    return "SELECT 1 FROM " + tables.locks + " WHERE key = $1::text AND " + live();
}

}  // namespace

std::string statement_name(const std::string& text) {
    return "syncguard_" + hash_key(text);
}

std::string server_clock() {
    // now() would be the begin of the transaction, before any waiting.
    return "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
}

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
                tables.locks + " WHERE key = $1::text AND expires_at_ms < " + server_clock() +
                " - " + cleanup_guard + " FOR UPDATE SKIP LOCKED)) " + is_locked_text(tables))),
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
