#include "postgres/statements.hpp"

#include "core/cleanup_guard.hpp"

#include <syncguard/fence.hpp>
#include <syncguard/key.hpp>
#include <syncguard/time.hpp>

#include <string>
#include <string_view>

namespace syncguard::postgres {

namespace {

std::string tolerance() {
    return std::to_string(time_tolerance.count());
}

std::string last_fence() {
    return std::to_string(fence::max_counter);
}

std::string run() {
    return "expires_at_ms {>} (" + server_clock() + " {-} " + tolerance() + ")";
}

statement unnamed(const std::string& text) {
    return {.name = {}, .text = with_system_operators(text)};
}

statement named(const std::string& text) {
    statement complete = unnamed(text);
    complete.name = statement_name(complete.text);
    return complete;
}

/// A stored fence as a number; 0 if the text is not a fence.
std::string fence_number(const std::string& column) {
    return "CASE WHEN " + column + " {~} '^[0-9]{1," + std::to_string(fence::length) + "}$' THEN " +
           column + "::bigint ELSE 0 END";
}

/// The number of a key: the argument of the advisory lock that serialises acquisitions, and the
/// payload of notifications, which contain no key because any role may listen to them.
std::string number_of(const std::string& key) {
    return "pg_catalog.hashtext(" + key + ")";
}

std::string acquire_text(const quoted_names& tables) {
    // The clock is read after the advisory locks were tried for. So a transaction that has the
    // advisory lock of a key, finds no row and reads a time after the deadline of an acquisition
    // knows that this acquisition has not written and will not write.
    //
    // The statement sees what was committed before it began. If another transaction changed the row
    // between then and the moment when this one got the advisory lock, the upsert meets that
    // change, since it sees all committed rows, and does not change a live lock. It also waits for
    // an extension or removal by lock id, which locks the row. In these cases the fence counter was
    // raised although nothing was locked, so the statement divides by zero on purpose, and the
    // transaction is rolled back. It does the same if it waited for a row that was then removed,
    // because the time for the new row was read before the wait, and if the wait for a row lasted
    // until after the deadline.
    //
    // PostgreSQL itself replaces `unnest` of several lists by pg_catalog.unnest of each list.
    return "WITH input AS MATERIALIZED (SELECT i.*, pg_catalog.pg_try_advisory_xact_lock(" +
           number_of("i.key") +
           ") AS mine FROM unnest($1::pg_catalog.text[], $2::pg_catalog.text[], "
           "$3::pg_catalog.text[], $4::bigint[], $5::pg_catalog.text[], $6::bigint[]) "
           "WITH ORDINALITY AS i (key, user_key, lock_id, ttl, fence_key, deadline, place)), "
           "clock AS MATERIALIZED (SELECT pg_catalog.count(*), " +
           server_clock() +
           " AS ms FROM input), "
           // This sum stays within the range of bigint for any stored expiry.
           "stored AS MATERIALIZED (SELECT l.key, l.lock_id, l.expires_at_ms::bigint, " +
           fence_number("l.fence") +
           " AS fence, greatest(l.expires_at_ms::bigint, 0) {-} clock.ms {+} " + tolerance() +
           " AS left_ms FROM " + tables.locks +
           " AS l, clock WHERE l.key {=} ANY ($1::pg_catalog.text[])), "
           "held AS (SELECT * FROM stored WHERE left_ms {>} 0), "
           "raised AS (INSERT INTO " +
           tables.fence_counters +
           " AS c (fence_key, fence, key_debug) "
           "SELECT i.fence_key, coalesce(stored.fence, 0) {+} 1, i.user_key "
           "FROM input AS i LEFT JOIN stored ON stored.key {=} i.key, clock "
           "WHERE i.mine AND clock.ms {<=} i.deadline AND coalesce(stored.left_ms, 0) {<=} 0 "
           "AND coalesce(stored.fence, 0) {<} " +
           last_fence() +
           // The counter may have been lost while the lock that got its last fence was stored.
           " ON CONFLICT (fence_key) DO UPDATE SET fence = greatest(c.fence {+} 1, excluded.fence) "
           "WHERE c.fence {>=} 0 AND c.fence {<} " +
           last_fence() +
           " RETURNING c.fence_key, c.fence::bigint), "
           "put AS (INSERT INTO " +
           tables.locks +
           " AS l (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key) "
           "SELECT i.key, i.lock_id, clock.ms {+} i.ttl, clock.ms, "
           "pg_catalog.lpad(raised.fence::pg_catalog.text, " +
           std::to_string(fence::length) +
           ", '0'), i.user_key "
           "FROM input AS i JOIN raised ON raised.fence_key {=} i.fence_key, clock "
           "ON CONFLICT (key) DO UPDATE SET lock_id = excluded.lock_id, "
           "(expires_at_ms, acquired_at_ms) = "
           "(SELECT later.ms {+} excluded.expires_at_ms {-} excluded.acquired_at_ms, later.ms "
           "FROM (SELECT " +
           server_clock() +
           " AS ms OFFSET 0) AS later), "
           "fence = excluded.fence, user_key = excluded.user_key WHERE l.expires_at_ms {<=} (" +
           server_clock() + " {-} " + tolerance() +
           ") RETURNING l.key, l.acquired_at_ms, l.expires_at_ms::bigint) "
           "SELECT clock.ms, CASE WHEN held.lock_id {<>} i.lock_id THEN held.left_ms END, "
           "i.mine AND clock.ms {<=} i.deadline, coalesce(raised.fence, held.fence), "
           "CASE WHEN raised.fence IS NULL THEN held.expires_at_ms "
           "WHEN put.acquired_at_ms {>=} (" +
           server_clock() + " {-} " + tolerance() +
           ") AND put.acquired_at_ms {<=} i.deadline THEN put.expires_at_ms "
           "ELSE 1 {/} (SELECT pg_catalog.count(*) FROM put WHERE put.acquired_at_ms IS NULL) "
           "END, held.lock_id IS NOT NULL, "
           "CASE WHEN i.mine AND coalesce(raised.fence, held.fence) IS NULL THEN "
           "(SELECT c.fence {<} 0 FROM " +
           tables.fence_counters +
           " AS c WHERE c.fence_key {=} i.fence_key) END FROM clock, input AS i "
           "LEFT JOIN held ON held.key {=} i.key "
           "LEFT JOIN raised ON raised.fence_key {=} i.fence_key "
           "LEFT JOIN put ON put.key {=} i.key ORDER BY i.place";
}

/// A session that watches a key holds its interest lock, shared, and receives releases as
/// notifications on the channel. Both are the same for all tables: a notification may be spurious.
constexpr const char* channel = "syncguard";
std::string interest_lock(const std::string& key) {
    const std::string interest_class = "1937337955";  // "sync" in ASCII; peers' locks have no kind
    return interest_class + ", " + number_of(key);
}

/// Whether a statement takes advisory locks and notifies. Both need memory that all clients of the
/// server share, and fail if it is used up.
enum class shared_memory { used, avoided };

/// Notifies the clients that wait for the key, if a condition holds. Commits that notify wait for
/// each other, so the statement notifies only if the interest lock is held. A client that tries to
/// get it later gets it only after this transaction has ended, and then sees the changes.
std::string notify_call(const std::string& key, const std::string& condition, shared_memory use) {
    if (use == shared_memory::avoided) return "NULL";
    return "CASE WHEN " + condition + " AND NOT pg_catalog.pg_try_advisory_xact_lock(" +
           interest_lock(key) + ") THEN pg_catalog.pg_notify('" + channel + "', " + number_of(key) +
           "::pg_catalog.text) END";
}

/// Defines `mine`: the live rows that meet the condition, read after they were locked, with the
/// time. They are locked in the order of their keys, so that two statements cannot deadlock.
std::string rows_of_mine(const quoted_names& tables, const std::string& condition) {
    return "locked AS MATERIALIZED (SELECT l.key, l.lock_id, l.expires_at_ms FROM " + tables.locks +
           " AS l WHERE l." + condition +
           " ORDER BY l.key FOR UPDATE OF l), "
           "clock AS MATERIALIZED (SELECT pg_catalog.count(*), " +
           server_clock() +
           " AS ms FROM locked), "
           "mine AS MATERIALIZED (SELECT key, lock_id, expires_at_ms::bigint {-} ms AS left_ms, ms "
           "FROM locked, clock WHERE expires_at_ms {>} (ms {-} " +
           tolerance() + "))";
}

constexpr const char* is_mine = "l.key {=} mine.key AND l.lock_id {=} mine.lock_id";

std::string release_text(const quoted_names& tables, shared_memory use) {
    return "WITH " + rows_of_mine(tables, "lock_id {=} ANY ($1::pg_catalog.text[])") +
           ", gone AS (DELETE FROM " + tables.locks + " AS l USING mine WHERE " + is_mine +
           " RETURNING l.lock_id, l.key) "
           "SELECT CASE WHEN gone.lock_id IS NOT NULL THEN 1 "
           "WHEN (SELECT pg_catalog.count(*) FROM " +
           tables.locks + " AS l WHERE l.lock_id {=} i.lock_id) {>} 0 THEN -2 ELSE -1 END, " +
           notify_call("gone.key", "gone.key IS NOT NULL", use) +
           ", (SELECT ms FROM clock) "
           "FROM pg_catalog.unnest($1::pg_catalog.text[]) WITH ORDINALITY AS i (lock_id, place) "
           "LEFT JOIN gone ON gone.lock_id {=} i.lock_id ORDER BY i.place";
}

std::string extend_text(const quoted_names& tables, shared_memory use) {
    // A peer reads the row under the advisory lock of the key, without locking the row, and then
    // overwrites it. While this transaction holds the advisory lock, no peer is between the two
    // steps. The statement does not wait for that lock, because a peer may hold it while waiting
    // for the row: that would be a deadlock. Without it, the extension counts only if the previous
    // end of the lock has not passed when the answer arrives.
    //
    // Waiting clients sleep until the end of the lock, and must be notified of an earlier end.
    const std::string alone =
        use == shared_memory::avoided
            ? "false"
            : "pg_catalog.pg_try_advisory_xact_lock(" + number_of("key") + ")";
    return "WITH " + rows_of_mine(tables, "lock_id {=} $1::pg_catalog.text") +
           ", entered AS MATERIALIZED (SELECT mine.*, " + alone +
           " AS alone FROM mine "
           "WHERE ms {<=} $3::bigint), extended AS (UPDATE " +
           tables.locks + " AS l SET expires_at_ms = mine.ms {+} $2::bigint FROM entered AS mine " +
           "WHERE " + is_mine +
           " AND (mine.alone OR mine.left_ms {>} 0) RETURNING l.key, l.expires_at_ms::bigint, "
           "mine.left_ms) "
           "SELECT clock.ms, (SELECT expires_at_ms FROM extended), "
           "(SELECT pg_catalog.count(*) FROM " +
           tables.locks +
           " WHERE lock_id {=} $1::pg_catalog.text), clock.ms {<=} $3::bigint, "
           "(SELECT left_ms FROM entered WHERE NOT alone), (SELECT " +
           notify_call("key", "left_ms {>} $2::bigint", use) + " FROM extended) FROM clock";
}

std::string lookup_text(const quoted_names& tables, const char* column) {
    return "SELECT user_key::pg_catalog.text, lock_id::pg_catalog.text, expires_at_ms::bigint, "
           "acquired_at_ms::bigint, fence::pg_catalog.text FROM " +
           tables.locks + " WHERE " + column + " {=} $1::pg_catalog.text AND " + run();
}

std::string is_locked_text(const quoted_names& tables) {
    return "SELECT 1 FROM " + tables.locks + " WHERE key {=} $1::pg_catalog.text AND " + run();
}

}  // namespace

std::string with_system_operators(std::string_view text) {
    constexpr std::string_view letters_of_operators = "+-*/<>=~|";
    std::string complete;
    for (auto at = text.find('{'); at != std::string_view::npos; at = text.find('{')) {
        const auto end = text.find_first_not_of(letters_of_operators, at + 1);
        const bool is_operator = end > at + 1 && end < text.size() && text[end] == '}';
        complete.append(text.substr(0, at));
        if (is_operator) {
            complete.append("OPERATOR(pg_catalog.")
                .append(text.substr(at + 1, end - at - 1))
                .append(")");
        } else {
            complete.append("{");
        }
        text.remove_prefix(is_operator ? end + 1 : at + 1);
    }
    return complete.append(text);
}

std::string statement_name(const std::string& text) {
    return "syncguard_" + hash_key(text);
}

std::string server_clock() {
    // now() would be the beginning of the transaction, before any waiting.
    return "pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp()) {*} 1000)::bigint";
}

statements::statements(const quoted_names& tables)
    : lock_key(named("SELECT pg_catalog.pg_advisory_xact_lock(" + number_of("$1::pg_catalog.text") +
                     ")")),
      acquire(named(acquire_text(tables))),
      release(named(release_text(tables, shared_memory::used))),
      release_without_notify(named(release_text(tables, shared_memory::avoided))),
      extend(named(extend_text(tables, shared_memory::used))),
      extend_without_notify(named(extend_text(tables, shared_memory::avoided))),
      is_locked(named(is_locked_text(tables))),
      // Rows locked by other transactions are skipped, so that the query does not wait.
      is_locked_with_cleanup(
          named("WITH gone AS (DELETE FROM " + tables.locks + " WHERE key {=} (SELECT key FROM " +
                tables.locks + " WHERE key {=} $1::pg_catalog.text AND expires_at_ms {<} (" +
                server_clock() + " {-} " + std::to_string(cleanup_guard.count()) +
                ") FOR UPDATE SKIP LOCKED)) " + is_locked_text(tables))),
      lookup_key(named(lookup_text(tables, "key"))),
      lookup_id(named(lookup_text(tables, "lock_id"))) {}

settings_statements::settings_statements()
    // `SET TRANSACTION` would write a warning to the server's log, since the transaction has no
    // BEGIN. This setting ends with the transaction as well.
    : isolation(unnamed("SET transaction_isolation TO 'read committed'")),
      time(named("SELECT pg_catalog.set_config('statement_timeout', '0', true), "
                 "CASE WHEN pg_catalog.current_setting('transaction_timeout', true) IS NOT NULL "
                 "THEN pg_catalog.set_config('transaction_timeout', '0', true) END")) {}

listener_sql::listener_sql()
    : backend_pid(unnamed("SELECT pg_catalog.pg_backend_pid()")),
      listen(unnamed(std::string("LISTEN ") + channel)),
      unlisten(unnamed(std::string("UNLISTEN ") + channel)),
      add_interest(unnamed("SELECT " + number_of("key") +
                           ", pg_catalog.pg_try_advisory_lock_shared(" + interest_lock("key") +
                           ") FROM pg_catalog.unnest($1::pg_catalog.text[]) "
                           "WITH ORDINALITY AS i (key, place) ORDER BY place")),
      remove_interest(unnamed("SELECT pg_catalog.count(pg_catalog.pg_advisory_unlock_shared(" +
                              interest_lock("key") +
                              ")) FROM pg_catalog.unnest($1::pg_catalog.text[]) AS key")) {}

}  // namespace syncguard::postgres
