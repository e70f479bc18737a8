#include "firestore/engine.hpp"

#include "firestore/checked_options.hpp"
#include "firestore/lock_operation.hpp"

#include <functional>
#include <memory>
#include <utility>

namespace syncguard::firestore {

namespace {

/// Environment and files are read once, also for clients that are made after a fork.
std::function<std::shared_ptr<client>()> maker_of_clients(options given,
                                                          warning_handler on_warning) {
    auto opts = checked(std::move(given));
    auto config = find_service_config(opts);
    return
        [config = std::move(config), opts = std::move(opts), on_warning = std::move(on_warning)] {
            return std::make_shared<client>(config, opts, on_warning);
        };
}

}  // namespace

firestore_engine::firestore_engine(options opts, warning_handler on_warning)
    : client_engine(maker_of_clients(std::move(opts), std::move(on_warning))) {
    client()->prepare();
}

backend_capabilities firestore_engine::capabilities() const noexcept {
    return {firestore::capabilities::backend, firestore::capabilities::supports_fencing,
            firestore::capabilities::time_authority};
}

std::shared_ptr<lock_operation> firestore_engine::make_operation(const request& req,
                                                                 const call_limits& limits,
                                                                 completion handler) {
    return std::make_shared<lock_operation>(req, limits, client(), std::move(handler));
}

backend::backend(options opts, backend_options common)
    : basic_backend(std::make_shared<firestore_engine>(std::move(opts), common.on_warning),
                    common) {}

}  // namespace syncguard::firestore
