/// The Redis engine: makes each request a `lock_operation` of its client.
#pragma once

#include "net/client_engine.hpp"
#include "redis/client.hpp"
#include "redis/key_space.hpp"
#include "redis/lock_operation.hpp"

#include <syncguard/engine.hpp>
#include <syncguard/redis.hpp>

#include <memory>

namespace syncguard::redis {

class redis_engine : public net::client_engine<client, lock_operation> {
  public:
    explicit redis_engine(const options& opts);

    [[nodiscard]] backend_capabilities capabilities() const noexcept override;
    [[nodiscard]] bool supports_waiting() const noexcept override { return true; }

  private:
    [[nodiscard]] std::shared_ptr<lock_operation> make_operation(const request& req,
                                                                 const call_limits& limits,
                                                                 completion handler) override;

    const bool cleanup_in_is_locked_;
    const std::shared_ptr<const key_space> keys_;
};

}  // namespace syncguard::redis
