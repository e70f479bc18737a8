/// Background release of a lock that may have been granted.
#pragma once

#include "postgres/client.hpp"
#include "postgres/statements.hpp"

#include <syncguard/lock_id.hpp>
#include <syncguard/time.hpp>

#include <memory>
#include <string>

namespace syncguard::postgres {

/// Repeats the release until the lock is released, cannot be granted any more, or has expired. Each
/// attempt has its own short deadline, because the connection may be dead.
class background_release : public query_operation {
  public:
    /// Until `server_deadline`, by the server's clock, "not found" is not final: the acquisition
    /// may still reach the server from a connection that broke.
    background_release(const lock_id& id, std::string key, time_point lock_ends_at,
                       unix_time server_deadline, std::shared_ptr<const statements> sql,
                       std::weak_ptr<client> owner);

  private:
    [[nodiscard]] bool on_response(const row& reply) noexcept override;
    void on_error(const lock_error& error) noexcept override;
    [[nodiscard]] bool prepare_resend() noexcept override { return true; }
    [[nodiscard]] bool is_background() const noexcept override { return true; }

    void repeat() noexcept;

    const lock_id id_;
    const std::string key_;
    const time_point lock_ends_at_;
    const unix_time server_deadline_;
    const std::shared_ptr<const statements> sql_;
    const std::weak_ptr<client> client_;
};

}  // namespace syncguard::postgres
