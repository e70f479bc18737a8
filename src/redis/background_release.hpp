/// The release of a lock that was perhaps granted, though nobody knows of it.
#pragma once

#include "client.hpp"
#include "key_space.hpp"

#include <syncguard/lock_id.hpp>

#include <memory>

namespace syncguard::redis {

/// Goes on until the server has answered, or until the lock has ended by itself. An attempt does
/// not wait for long: the connection may be dead.
class background_release : public operation {
  public:
    /// With `repetitions`, "not found" is not believed at once: the acquisition may still be under
    /// way to the server, on a connection that broke.
    background_release(const lock_id& id, time_point lock_ends_at, unsigned repetitions,
                       std::shared_ptr<const key_space> keys, std::weak_ptr<client> by);

  private:
    void answer(const script_reply& reply) noexcept override;
    void fail(const lock_error& why) noexcept override;
    [[nodiscard]] bool persists() const noexcept override { return true; }

    void repeat(unsigned repetitions) noexcept;

    const lock_id id_;
    const time_point lock_ends_at_;
    const unsigned repetitions_;
    const std::shared_ptr<const key_space> keys_;
    const std::weak_ptr<client> client_;
};

}  // namespace syncguard::redis
