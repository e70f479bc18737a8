#include "engine.hpp"

#include "checked_options.hpp"
#include "lock_operation.hpp"

#include <utility>
#include <vector>

namespace syncguard::firestore {

namespace {

/// How long the end of an engine may take for releases that are still to be made.
constexpr milliseconds farewell{1'000};

}  // namespace

firestore_engine::firestore_engine(options store, warning_handler on_warning)
    : store_(checked(std::move(store))),
      how_(find_access(store_)),
      on_warning_(std::move(on_warning)),
      client_(std::make_shared<client>(how_, store_, on_warning_)) {
    client_->prepare();
    fork_guard::add(*this);
}

firestore_engine::~firestore_engine() {
    fork_guard::remove(*this);
    client_->end(farewell);
}

backend_capabilities firestore_engine::capabilities() const noexcept {
    return {firestore::capabilities::backend, firestore::capabilities::supports_fencing,
            firestore::capabilities::time_authority};
}

outcome firestore_engine::perform(const request& what, const call_limits& limits) {
    const auto call = std::make_shared<lock_operation>(what, limits, client_, nullptr);
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

void firestore_engine::start(const request& what, const call_limits& limits,
                             completion done) noexcept {
    try {
        const auto call = std::make_shared<lock_operation>(what, limits, client_, done);
        call->watch_for_stop(limits.stop);
        client_->start(call);
    } catch (...) {
        done(std::current_exception(), {});
    }
}

void firestore_engine::after_fork_in_child() {
    client_->abandon();
    // Threads of the parent may have been inside: what they left is never destroyed.
    static auto* const left_behind = new std::vector<std::shared_ptr<client>>;
    left_behind->push_back(std::move(client_));
    client_ = std::make_shared<client>(how_, store_, on_warning_);
}

backend::backend(options store, backend_options common)
    : basic_backend(std::make_shared<firestore_engine>(std::move(store), common.on_warning),
                    common) {}

}  // namespace syncguard::firestore
