#include "engine.hpp"

#include "../core/longest_wait.hpp"
#include "lock_operation.hpp"
#include "schema.hpp"
#include "schema_operation.hpp"

#include <syncguard/error.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace syncguard::postgres {

namespace {

/// How long the end of an engine may take for releases that are still to be made.
constexpr milliseconds farewell{1'000};

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

postgres_engine::postgres_engine(options store)
    : store_(checked(std::move(store))),
      tables_(checked_names(store_.tables)),
      sql_(std::make_shared<const statements>(tables_)),
      client_(std::make_shared<client>(store_)) {
    fork_guard::add(*this);
}

postgres_engine::~postgres_engine() {
    fork_guard::remove(*this);
    client_->end(farewell);
}

backend_capabilities postgres_engine::capabilities() const noexcept {
    return {postgres::capabilities::backend, postgres::capabilities::supports_fencing,
            postgres::capabilities::time_authority};
}

outcome postgres_engine::perform(const request& what, const call_limits& limits) {
    const auto call = std::make_shared<lock_operation>(what, limits, store_.cleanup_in_is_locked,
                                                       sql_, client_, nullptr);
    call->watch_for_stop(limits.stop);
    try {
        client_->perform(call);
    } catch (...) {
        client_->cancel(call);
        call->abandon();
        throw;
    }
    return call->result();
}

void postgres_engine::start(const request& what, const call_limits& limits,
                            completion done) noexcept {
    try {
        const auto call = std::make_shared<lock_operation>(
            what, limits, store_.cleanup_in_is_locked, sql_, client_, done);
        call->watch_for_stop(limits.stop);
        client_->start(call);
    } catch (...) {
        done(std::current_exception(), {});
    }
}

void postgres_engine::setup_schema(const call_limits& limits) {
    const auto perform = [&](call what, std::shared_ptr<const void> kept) {
        const auto step =
            std::make_shared<schema_operation>(std::move(what), limits.deadline, std::move(kept));
        const std::stop_callback<std::function<void()>> on_stop(
            limits.stop, [by = client_, step] { by->cancel(step); });
        client_->perform(step);
        step->throw_if_failed();
    };
    const auto schema = std::make_shared<const schema_statements>(tables_);
    perform({.what = &schema->create,
             .parameters = {},
             .enter = &schema->enter,
             .turn = setup_lock,
             .always_enters = true},
            schema);
    // An acquisition of no keys writes nothing, but fails where one would: with tables that are not
    // ours, or without the rights to use them.
    const std::string no_keys = "{}";
    perform({.what = &sql_->acquire,
             .parameters = {no_keys, no_keys, no_keys, no_keys, no_keys},
             .takes_patience = true},
            sql_);
}

void postgres_engine::after_fork_in_child() {
    client_->abandon();
    // Threads of the parent may have been inside: what they left is never destroyed.
    static auto* const left_behind = new std::vector<std::shared_ptr<client>>;
    left_behind->push_back(std::move(client_));
    client_ = std::make_shared<client>(store_);
}

backend::backend(options store, backend_options common)
    : backend(std::make_shared<postgres_engine>(std::move(store)), std::move(common)) {}

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
