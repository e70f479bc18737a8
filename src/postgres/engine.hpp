/// The store in a PostgreSQL server: validates, encodes, sends, decodes; and cleans up behind
/// acquisitions that nobody heard the end of.
#pragma once

#include "../core/fork_guard.hpp"
#include "client.hpp"
#include "statements.hpp"

#include <syncguard/engine.hpp>
#include <syncguard/postgres.hpp>

#include <memory>

namespace syncguard::postgres {

class postgres_engine : public engine, private fork_participant {
  public:
    explicit postgres_engine(options store);
    ~postgres_engine() override;

    [[nodiscard]] backend_capabilities capabilities() const noexcept override;
    [[nodiscard]] bool tells_when_free() const noexcept override { return true; }
    [[nodiscard]] outcome perform(const request& what, const call_limits& limits) override;
    void start(const request& what, const call_limits& limits, completion done) noexcept override;

    /// Throws `lock_error`.
    void setup_schema(const call_limits& limits);

  private:
    // A child would read the answers meant for its parent: it gets a client of its own.
    void before_fork() override {}
    void after_fork_in_parent() override {}
    void after_fork_in_child() override;

    const options store_;
    const quoted_names tables_;
    const std::shared_ptr<const statements> sql_;
    std::shared_ptr<client> client_;
};

}  // namespace syncguard::postgres
