#include "postgres/engine.hpp"

#include "postgres/lock_operation.hpp"
#include "postgres/schema_operation.hpp"
#include "util/bounded_wait.hpp"
#include "util/deferred_cancellation.hpp"

#include <syncguard/error.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace syncguard::postgres {

namespace {

/// More connections would not increase the throughput of a server.
constexpr std::size_t largest_pool = 100;

options checked(options opts) {
    const auto refuse = [](const std::string& message) {
        throw lock_error(error_code::invalid_argument, message);
    };
    if (opts.pool_size == 0 || opts.pool_size > largest_pool) {
        refuse("the pool for PostgreSQL has 1 to " + std::to_string(largest_pool) + " connections");
    }
    if (opts.connect_timeout <= milliseconds{0} ||
        (opts.statement_timeout && *opts.statement_timeout <= milliseconds{0})) {
        refuse("timeouts for PostgreSQL must be positive");
    }
    return opts;
}

}  // namespace

postgres_engine::postgres_engine(const options& opts)
    : client_engine([opts = checked(opts)] { return std::make_shared<postgres::client>(opts); }),
      cleanup_in_is_locked_(opts.cleanup_in_is_locked),
      sql_(std::make_shared<const statements>(placeholders(checked_tables(opts.tables)))),
      schema_(
          std::make_shared<const schema_statements>(placeholders(checked_tables(opts.tables)))) {}

backend_capabilities postgres_engine::capabilities() const noexcept {
    return {postgres::capabilities::backend, postgres::capabilities::supports_fencing,
            postgres::capabilities::time_authority};
}

std::shared_ptr<lock_operation> postgres_engine::make_operation(const request& req,
                                                                const call_limits& limits,
                                                                completion handler) {
    return std::make_shared<lock_operation>(req, limits, cleanup_in_is_locked_, sql_, client(),
                                            std::move(handler));
}

void postgres_engine::setup_schema(const call_limits& limits) {
    const deferred_cancellation whole_call;
    const auto execute = [&](query asked, std::shared_ptr<const void> kept) {
        const auto op =
            std::make_shared<schema_operation>(std::move(asked), limits.deadline, std::move(kept));
        const std::stop_callback<std::function<void()>> on_stop(
            limits.stop, [owner = client(), op] { owner->cancel(op); });
        client()->execute(op);
        op->throw_if_failed();
    };
    execute({.sql = &schema_->create,
             .parameters = {},
             .key_lock_sql = &schema_->lock_setup,
             .key_lock = setup_lock,
             .needs_key_lock = true},
            schema_);
    // An acquisition without keys writes nothing, but fails like a real one if the tables are not
    // those of SyncGuard, or if the role has no rights to use them.
    const std::string no_keys = "{}";
    execute({.sql = &sql_->acquire,
             .parameters = {no_keys, no_keys, no_keys, no_keys, no_keys, no_keys},
             .may_wait_for_rows = true},
            sql_);
}

backend::backend(options opts, backend_options common)
    : backend(std::make_shared<postgres_engine>(opts), std::move(common)) {}

backend::backend(std::shared_ptr<postgres_engine> backing_engine, backend_options common)
    : basic_backend(backing_engine, common),
      engine_(std::move(backing_engine)),
      default_timeout_(common.operation_timeout) {}

void backend::setup_schema(const call_options& opts, std::stop_token stop) const {
    if (opts.timeout < milliseconds{0}) {
        throw lock_error(error_code::invalid_argument, "a timeout cannot be negative");
    }
    const auto allowed = opts.timeout == milliseconds{0} ? default_timeout_ : opts.timeout;
    engine_->setup_schema({.deadline = std::chrono::steady_clock::now() + bounded_wait(allowed),
                           .stop = std::move(stop)});
}

}  // namespace syncguard::postgres
