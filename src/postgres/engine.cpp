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

/// More would not make a server faster.
constexpr std::size_t largest_pool = 100;

options checked(options store) {
    const auto refuse = [](const std::string& why) {
        throw lock_error(error_code::invalid_argument, why);
    };
    if (store.pool_size == 0 || store.pool_size > largest_pool) {
        refuse("the pool for PostgreSQL has 1 to " + std::to_string(largest_pool) + " connections");
    }
    if (store.connect_timeout <= milliseconds{0} ||
        (store.statement_timeout && *store.statement_timeout <= milliseconds{0})) {
        refuse("timeouts for PostgreSQL must be positive");
    }
    return store;
}

}  // namespace

postgres_engine::postgres_engine(const options& store)
    : client_engine([store = checked(store)] { return std::make_shared<postgres::client>(store); }),
      cleanup_in_is_locked_(store.cleanup_in_is_locked),
      sql_(std::make_shared<const statements>(placeholders(checked_tables(store.tables)))),
      schema_(
          std::make_shared<const schema_statements>(placeholders(checked_tables(store.tables)))) {}

backend_capabilities postgres_engine::capabilities() const noexcept {
    return {postgres::capabilities::backend, postgres::capabilities::supports_fencing,
            postgres::capabilities::time_authority};
}

std::shared_ptr<lock_operation> postgres_engine::make_operation(const request& what,
                                                                const call_limits& limits,
                                                                completion done) {
    return std::make_shared<lock_operation>(what, limits, cleanup_in_is_locked_, sql_, client(),
                                            std::move(done));
}

void postgres_engine::setup_schema(const call_limits& limits) {
    const deferred_cancellation whole_call;
    const auto perform = [&](call what, std::shared_ptr<const void> kept) {
        const auto step =
            std::make_shared<schema_operation>(std::move(what), limits.deadline, std::move(kept));
        const std::stop_callback<std::function<void()>> on_stop(
            limits.stop, [by = client(), step] { by->cancel(step); });
        client()->perform(step);
        step->throw_if_failed();
    };
    perform({.what = &schema_->create,
             .parameters = {},
             .enter = &schema_->enter,
             .turn = setup_lock,
             .always_enters = true},
            schema_);
    // An acquisition of no keys writes nothing, but fails where one would: with tables that are not
    // ours, or without the rights to use them.
    const std::string no_keys = "{}";
    perform({.what = &sql_->acquire,
             .parameters = {no_keys, no_keys, no_keys, no_keys, no_keys, no_keys},
             .may_wait_for_rows = true},
            sql_);
}

backend::backend(options store, backend_options common)
    : backend(std::make_shared<postgres_engine>(store), std::move(common)) {}

backend::backend(std::shared_ptr<postgres_engine> store, backend_options common)
    : basic_backend(store, common),
      store_(std::move(store)),
      default_timeout_(common.operation_timeout) {}

void backend::setup_schema(const call_options& limits, std::stop_token stop) const {
    if (limits.timeout < milliseconds{0}) {
        throw lock_error(error_code::invalid_argument, "a timeout cannot be negative");
    }
    const auto allowed = limits.timeout == milliseconds{0} ? default_timeout_ : limits.timeout;
    store_->setup_schema({.deadline = std::chrono::steady_clock::now() + bounded_wait(allowed),
                          .stop = std::move(stop)});
}

}  // namespace syncguard::postgres
