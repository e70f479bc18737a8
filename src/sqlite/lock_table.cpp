#include "sqlite/lock_table.hpp"

#include <syncguard/error.hpp>

#include <string>

namespace syncguard::sqlite {

namespace {

std::int64_t as_ms(unix_time time) noexcept {
    return time.time_since_epoch().count();
}

unix_time from_ms(std::int64_t ms) noexcept {
    return unix_time(milliseconds(ms));
}

/// Keys of locks that ended before ?1, and of locks of another boot than ?2. Reads a limited number
/// of rows from each end of the index.
std::string some_ended() {
    const std::string limit = std::to_string(lock_table::max_erased_at_once / 2);
    return "SELECT key FROM (SELECT key FROM syncguard_locks_v2 WHERE ends_boot_ms < ?1 "
           "ORDER BY ends_boot_ms LIMIT " +
           limit +
           ") UNION ALL SELECT key FROM (SELECT key, boot_id FROM syncguard_locks_v2 "
           "ORDER BY ends_boot_ms DESC LIMIT " +
           limit + ") WHERE ?2 <> '' AND boot_id NOT IN (?2, '')";
}

}  // namespace

lock_table::lock_table(database& file)
    : file_(file),
      by_key_(file,
              "SELECT key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key, "
              "boot_id, began_boot_ms, ends_boot_ms FROM syncguard_locks_v2 WHERE key = ?1"),
      by_id_(file,
             "SELECT key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key, "
             "boot_id, began_boot_ms, ends_boot_ms FROM syncguard_locks_v2 WHERE lock_id = ?1"),
      raise_fence_(file,
                   "INSERT INTO syncguard_fence_counters_v2 (fence_key, fence, key_debug) "
                   "VALUES (?1, ?3 + 1, ?2) "
                   "ON CONFLICT (fence_key) DO UPDATE SET fence = max(fence, ?3) + 1 "
                   "RETURNING fence"),
      put_(file,
           "INSERT INTO syncguard_locks_v2 "
           "(key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key, "
           "boot_id, began_boot_ms, ends_boot_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) "
           "ON CONFLICT (key) DO UPDATE SET lock_id = excluded.lock_id, "
           "expires_at_ms = excluded.expires_at_ms, acquired_at_ms = excluded.acquired_at_ms, "
           "fence = excluded.fence, user_key = excluded.user_key, boot_id = excluded.boot_id, "
           "began_boot_ms = excluded.began_boot_ms, ends_boot_ms = excluded.ends_boot_ms, "
           "holder = NULL"),
      set_period_(file,
                  "UPDATE syncguard_locks_v2 SET boot_id = ?3, began_boot_ms = ?4, "
                  "ends_boot_ms = ?5, expires_at_ms = ?6 WHERE key = ?1 AND lock_id = ?2"),
      erase_(file, "DELETE FROM syncguard_locks_v2 WHERE key = ?1 AND lock_id = ?2"),
      find_ended_(file, "SELECT 1 FROM (" + some_ended() + ") LIMIT 1"),
      erase_some_ended_(file,
                        "DELETE FROM syncguard_locks_v2 WHERE key IN (" + some_ended() + ")") {}

std::optional<stored_lock> lock_table::read(statement::execution row) const {
    if (!row.step()) return std::nullopt;
    const auto token = fence::parse(row.text(4));
    if (!token || !lock_id::is_valid(row.text(1))) {
        throw lock_error(error_code::internal, "the lock file '" + file_.path().string() +
                                                   "' holds a lock that SyncGuard did not write");
    }
    return stored_lock{.storage_key = std::string(row.text(0)),
                       .record = {.key = std::string(row.text(5)),
                                  .id = lock_id::parse(row.text(1)),
                                  .expires_at = from_ms(row.integer(2)),
                                  .acquired_at = from_ms(row.integer(3)),
                                  .fence = *token},
                       .period = {.boot_id = std::string(row.text(6)),
                                  .began_ms = row.integer(7),
                                  .ends_ms = row.integer(8)}};
}

std::optional<stored_lock> lock_table::by_key(std::string_view storage_key) {
    return read(by_key_.with(storage_key));
}

std::optional<stored_lock> lock_table::by_id(const lock_id& id) {
    return read(by_id_.with(id.str()));
}

std::uint64_t lock_table::raise_fence(std::string_view fence_key, std::string_view user_key,
                                      const std::optional<stored_lock>& expired) {
    // Cannot throw: fences consist of digits.
    const std::int64_t stored = expired ? std::stoll(expired->record.fence.to_string()) : 0;
    auto raising = raise_fence_.with(fence_key, user_key, stored);
    if (!raising.step()) throw lock_error(error_code::internal, "no fence counter was returned");
    const auto counter = static_cast<std::uint64_t>(raising.integer(0));
    raising.step();
    return counter;
}

void lock_table::put(const stored_lock& lock) {
    put_.run(std::string_view(lock.storage_key), lock.record.id.str(),
             as_ms(lock.record.expires_at), as_ms(lock.record.acquired_at), lock.record.fence.str(),
             std::string_view(lock.record.key), std::string_view(lock.period.boot_id),
             lock.period.began_ms, lock.period.ends_ms);
}

void lock_table::set_period(const stored_lock& lock, const lock_period& period,
                            unix_time expires_at) {
    set_period_.run(std::string_view(lock.storage_key), lock.record.id.str(),
                    std::string_view(period.boot_id), period.began_ms, period.ends_ms,
                    as_ms(expires_at));
}

void lock_table::erase(const stored_lock& lock) {
    erase_.run(std::string_view(lock.storage_key), lock.record.id.str());
}

bool lock_table::any_ended_before(const host_time& time) {
    return find_ended_.with(time.boot_ms, std::string_view(time.boot_id)).step();
}

void lock_table::erase_some_ended_before(const host_time& time) {
    erase_some_ended_.run(time.boot_ms, std::string_view(time.boot_id));
}

}  // namespace syncguard::sqlite
