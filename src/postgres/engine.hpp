/// The PostgreSQL engine: validates, encodes, sends, decodes; and releases acquisitions of unknown
/// outcome.
#pragma once

#include "net/client_engine.hpp"
#include "postgres/client.hpp"
#include "postgres/lock_operation.hpp"
#include "postgres/schema.hpp"
#include "postgres/statements.hpp"

#include <syncguard/engine.hpp>
#include <syncguard/postgres.hpp>

#include <memory>

namespace syncguard::postgres {

class postgres_engine : public net::client_engine<client, lock_operation> {
  public:
    explicit postgres_engine(const options& opts);

    [[nodiscard]] backend_capabilities capabilities() const noexcept override;
    [[nodiscard]] bool supports_waiting() const noexcept override { return true; }

    /// Throws `lock_error`.
    void setup_schema(const call_limits& limits);

  private:
    [[nodiscard]] std::shared_ptr<lock_operation> make_operation(const request& req,
                                                                 const call_limits& limits,
                                                                 completion handler) override;

    const bool cleanup_in_is_locked_;
    const std::shared_ptr<const statements> sql_;
    const std::shared_ptr<const schema_statements> schema_;
};

}  // namespace syncguard::postgres
