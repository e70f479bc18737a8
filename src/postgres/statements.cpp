#include "statements.hpp"

#include <syncguard/fence.hpp>
#include <syncguard/key.hpp>
#include <syncguard/time.hpp>

#include <string>

namespace syncguard::postgres {

namespace {

/// The server's clock at the moment of asking: now() would be the begin of the transaction, before
/// any waiting.
const std::string now_ms = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

const std::string tolerance = std::to_string(time_tolerance.count());

/// How long after its end a lock may be removed. An extension that is under way does not come
/// later.
const std::string cleanup_guard = "2000";

const std::string last_fence = std::to_string(fence::max_counter);

std::string live() {
    return "expires_at_ms > " + now_ms + " - " + tolerance;
}

statement named(std::string text) {
    return {.name = "syncguard_" + hash_key(text), .text = std::move(text)};
}

std::string acquire_text(const quoted_names& tables) {
    // The statement sees what was committed before it began, which is after `enter` has waited. So
    // whoever follows the protocol has nothing left to change, but for two: an extension and a
    // removal by lock id, which wait for the row alone. The upsert waits for them and sees what
    // they did; a lock that was extended under its hands it leaves alone. The fence counter was
    // raised for nothing then: the division undoes it all.
    return "WITH clock AS MATERIALIZED (SELECT " + now_ms +
           " AS ms), "
           "held AS MATERIALIZED (SELECT l.expires_at_ms + " +
           tolerance + " - clock.ms AS left_ms FROM " + tables.locks +
           " AS l, clock WHERE l.key = $1::text AND l.expires_at_ms > clock.ms - " + tolerance +
           "), "
           "raised AS (INSERT INTO " +
           tables.fence_counters +
           " AS c (fence_key, fence, key_debug) "
           "SELECT $5::text, 1, $2::text WHERE NOT EXISTS (SELECT FROM held) "
           "ON CONFLICT (fence_key) DO UPDATE SET fence = c.fence + 1 WHERE c.fence < " +
           last_fence +
           " RETURNING c.fence), "
           "put AS (INSERT INTO " +
           tables.locks +
           " AS l (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key) "
           "SELECT $1::text, $3::text, clock.ms + $4::bigint, clock.ms, "
           "lpad(raised.fence::text, 15, '0'), $2::text FROM raised, clock "
           "ON CONFLICT (key) DO UPDATE SET lock_id = excluded.lock_id, "
           "(expires_at_ms, acquired_at_ms) = "
           "(SELECT later.ms + $4::bigint, later.ms FROM (SELECT " +
           now_ms +
           " AS ms OFFSET 0) AS later), "
           "fence = excluded.fence, user_key = excluded.user_key WHERE l.expires_at_ms <= " +
           now_ms + " - " + tolerance +
           " RETURNING l.expires_at_ms) "
           "SELECT (SELECT left_ms FROM held), (SELECT fence FROM raised), "
           "CASE WHEN EXISTS (SELECT FROM raised) "
           "THEN coalesce((SELECT expires_at_ms FROM put), 1 / (SELECT count(*) FROM put)) END";
}

std::string lookup_text(const quoted_names& tables, const char* column) {
    return std::string("SELECT user_key, lock_id, expires_at_ms, acquired_at_ms, fence FROM ") +
           tables.locks + " WHERE " + column + " = $1::text AND " + live();
}

std::string is_locked_text(const quoted_names& tables) {
    return "SELECT 1 FROM " + tables.locks + " WHERE key = $1::text AND " + live();
}

}  // namespace

statements::statements(const quoted_names& tables)
    // The limit holds for this transaction, the wait that follows included: whoever stops waiting
    // must not be granted a lock later. Functions of a list are called from left to right.
    : enter(named("SELECT set_config('lock_timeout', $2::text, true), "
                  "pg_advisory_xact_lock(hashtext($1::text))")),
      acquire(named(acquire_text(tables))),
      release(named("WITH gone AS (DELETE FROM " + tables.locks + " WHERE lock_id = $1::text AND " +
                    live() +
                    " RETURNING 1) SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM " +
                    tables.locks + " WHERE lock_id = $1::text)")),
      extend(named("WITH extended AS (UPDATE " + tables.locks + " SET expires_at_ms = " + now_ms +
                   " + $2::bigint WHERE lock_id = $1::text AND " + live() +
                   " RETURNING expires_at_ms) SELECT (SELECT expires_at_ms FROM extended), "
                   "(SELECT count(*) FROM " +
                   tables.locks + " WHERE lock_id = $1::text)")),
      is_locked(named(is_locked_text(tables))),
      // What somebody else works on is left to him: a question must not wait.
      is_locked_with_cleanup(
          named("WITH gone AS (DELETE FROM " + tables.locks + " WHERE key = (SELECT key FROM " +
                tables.locks + " WHERE key = $1::text AND expires_at_ms < " + now_ms + " - " +
                cleanup_guard + " FOR UPDATE SKIP LOCKED)) " + is_locked_text(tables))),
      lookup_key(named(lookup_text(tables, "key"))),
      lookup_id(named(lookup_text(tables, "lock_id"))) {}

}  // namespace syncguard::postgres
