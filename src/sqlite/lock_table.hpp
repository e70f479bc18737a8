/// The statements on the lock file, by name. No decisions here: who may have a lock is decided in
/// the engine.
#pragma once

#include "database.hpp"

#include <syncguard/engine.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace syncguard::sqlite {

/// A lock as it is stored, before anybody asks whether it is live.
struct stored_lock {
    std::string storage_key;
    lock_record record;
};

class lock_table {
  public:
    /// `file` must have the current schema and outlive this.
    explicit lock_table(database& file);

    [[nodiscard]] std::optional<stored_lock> by_key(std::string_view storage_key);
    [[nodiscard]] std::optional<stored_lock> by_id(const lock_id& id);

    /// Raises a fence counter by one and returns it.
    [[nodiscard]] std::uint64_t raise_fence(std::string_view fence_key, std::string_view user_key);

    /// Writes a lock over whatever is stored under its key.
    void put(const stored_lock& lock);
    void set_expiry(const stored_lock& lock, unix_time expires_at);
    void erase(const stored_lock& lock);

    [[nodiscard]] bool any_expired_before(unix_time then);
    void erase_expired_before(unix_time then);

  private:
    [[nodiscard]] std::optional<stored_lock> read(statement::execution row) const;

    database& file_;
    statement by_key_;
    statement by_id_;
    statement raise_fence_;
    statement put_;
    statement set_expiry_;
    statement erase_;
    statement find_expired_;
    statement erase_expired_;
};

}  // namespace syncguard::sqlite
