#include "firestore/engine.hpp"

#include "firestore/checked_options.hpp"
#include "firestore/lock_operation.hpp"

#include <functional>
#include <memory>
#include <utility>

namespace syncguard::firestore {

namespace {

/// What is in the environment and in files is read once, also for clients that follow.
std::function<std::shared_ptr<client>()> maker_of_clients(options given,
                                                          warning_handler on_warning) {
    auto store = checked(std::move(given));
    auto how = find_access(store);
    return [how = std::move(how), store = std::move(store), on_warning = std::move(on_warning)] {
        return std::make_shared<client>(how, store, on_warning);
    };
}

}  // namespace

firestore_engine::firestore_engine(options store, warning_handler on_warning)
    : client_engine(maker_of_clients(std::move(store), std::move(on_warning))) {
    client()->prepare();
}

backend_capabilities firestore_engine::capabilities() const noexcept {
    return {firestore::capabilities::backend, firestore::capabilities::supports_fencing,
            firestore::capabilities::time_authority};
}

std::shared_ptr<lock_operation> firestore_engine::make_operation(const request& what,
                                                                 const call_limits& limits,
                                                                 completion done) {
    return std::make_shared<lock_operation>(what, limits, client(), std::move(done));
}

backend::backend(options store, backend_options common)
    : basic_backend(std::make_shared<firestore_engine>(std::move(store), common.on_warning),
                    common) {}

}  // namespace syncguard::firestore
