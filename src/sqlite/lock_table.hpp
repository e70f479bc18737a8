/// The SQL statements on the lock file. The engine decides about requests.
#pragma once

#include "sqlite/database.hpp"
#include "sqlite/host_clock.hpp"

#include <syncguard/engine.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace syncguard::sqlite {

/// A lock as it is stored, live or expired.
struct stored_lock {
    std::string storage_key;
    /// Its times are wall times, for display.
    lock_record record;
    /// Decides whether the lock is live.
    lock_period period;
};

class lock_table {
  public:
    /// `file` must have the current schema and outlive this.
    explicit lock_table(database& file);

    [[nodiscard]] std::optional<stored_lock> by_key(std::string_view storage_key);
    [[nodiscard]] std::optional<stored_lock> by_id(const lock_id& id);

    /// Increments a fence counter and returns it. If the counter is missing or less than the fence
    /// of the expired lock under the key, it is first set to that fence.
    [[nodiscard]] std::uint64_t raise_fence(std::string_view fence_key, std::string_view user_key,
                                            const std::optional<stored_lock>& expired);

    /// Inserts a lock, or replaces the lock with the same key.
    void put(const stored_lock& lock);
    void set_period(const stored_lock& lock, const lock_period& period, unix_time expires_at);
    void erase(const stored_lock& lock);

    /// Whether `erase_some_ended_before` would erase anything.
    [[nodiscard]] bool any_ended_before(const host_time& time);
    /// Erases locks that ended before the given time and, if this boot is known, the locks of
    /// another boot that have the latest ends. Other locks of another boot are erased when
    /// `boot_ms` passes their ends. Reads no more rows than it may erase.
    void erase_some_ended_before(const host_time& time);
    static constexpr int max_erased_at_once = 100;

  private:
    [[nodiscard]] std::optional<stored_lock> read(statement::execution row) const;

    database& file_;
    statement by_key_;
    statement by_id_;
    statement raise_fence_;
    statement put_;
    statement set_period_;
    statement erase_;
    statement find_ended_;
    statement erase_some_ended_;
};

}  // namespace syncguard::sqlite
