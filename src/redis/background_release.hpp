/// Background release of a lock whose acquisition failed with unknown outcome, or whose caller
/// left.
#pragma once

#include "redis/client.hpp"
#include "redis/key_space.hpp"

#include <syncguard/lock_id.hpp>

#include <memory>

namespace syncguard::redis {

/// Repeats the release until the server has answered, at most until `give_up_at`. Each attempt has
/// its own short deadline, because the connection may be dead.
class background_release : public script_operation {
  public:
    /// How to treat the reply "not found".
    enum class absence {
        final,
        /// The acquisition may still reach the server from a connection that broke: the release is
        /// repeated, at growing intervals, until `give_up_at`.
        may_appear_later,
    };

    background_release(const lock_id& id, time_point give_up_at, absence not_found,
                       std::shared_ptr<const key_space> keys, std::weak_ptr<client> redis_client,
                       std::chrono::seconds retry_delay = first_retry_delay);

  private:
    void on_response(const script_reply& reply) noexcept override;
    void on_error(const lock_error& error) noexcept override;
    [[nodiscard]] bool is_background() const noexcept override { return true; }

    void repeat(std::chrono::seconds next_delay) noexcept;

    static constexpr std::chrono::seconds first_retry_delay{1};

    const lock_id id_;
    const time_point give_up_at_;
    const absence not_found_;
    const std::shared_ptr<const key_space> keys_;
    const std::weak_ptr<client> client_;
    const std::chrono::seconds retry_delay_;  ///< Before the next attempt.
};

}  // namespace syncguard::redis
