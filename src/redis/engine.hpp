/// The store in a Redis server: validates, encodes, sends, decodes; and cleans up behind
/// acquisitions that nobody heard the end of.
#pragma once

#include "../core/fork_guard.hpp"
#include "client.hpp"
#include "key_space.hpp"

#include <syncguard/engine.hpp>
#include <syncguard/redis.hpp>

#include <memory>

namespace syncguard::redis {

class redis_engine : public engine, private fork_participant {
  public:
    explicit redis_engine(options store);
    ~redis_engine() override;

    [[nodiscard]] backend_capabilities capabilities() const noexcept override;
    [[nodiscard]] bool tells_when_free() const noexcept override { return true; }
    [[nodiscard]] outcome perform(const request& what, const call_limits& limits) override;
    void start(const request& what, const call_limits& limits, completion done) noexcept override;

  private:
    // A child would read the answers meant for its parent: it gets a client of its own.
    void before_fork() override {}
    void after_fork_in_parent() override {}
    void after_fork_in_child() override;

    const options store_;
    const std::shared_ptr<const key_space> keys_;
    std::shared_ptr<client> client_;
};

}  // namespace syncguard::redis
