/// Background operations, which follow a lock operation and for which no caller waits.
#pragma once

#include "firestore/client.hpp"

#include <syncguard/lock_id.hpp>

#include <memory>
#include <string>

namespace syncguard::firestore {

/// Undoes an acquisition whose outcome is unknown, or whose caller is gone. Repeats the undo until
/// the server has acknowledged it, or until the lock has expired.
class background_undo : public coroutine_operation {
  public:
    background_undo(const lock_id& id, std::string key, time_point lock_ends_at,
                    const std::shared_ptr<client>& owner);

  private:
    [[nodiscard]] boost::asio::awaitable<void> run(lock_store& store,
                                                   net::call_context& ctx) override;
    void fail(std::exception_ptr /*error*/) noexcept override {}
    [[nodiscard]] bool is_background() const noexcept override { return true; }

    const lock_id id_;
    const std::string key_;
    const std::weak_ptr<client> client_;
};

/// Removes a lock that ended long ago.
class background_cleanup : public coroutine_operation {
  public:
    explicit background_cleanup(stored_lock expired_lock);

  private:
    [[nodiscard]] boost::asio::awaitable<void> run(lock_store& store,
                                                   net::call_context& ctx) override;
    // Nothing depends on the removal; a later `is_locked` may try again.
    void fail(std::exception_ptr /*error*/) noexcept override {}

    const stored_lock expired_lock_;
};

}  // namespace syncguard::firestore
