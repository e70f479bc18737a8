/// Synchronisation with the threads that call the program's handlers.
#pragma once

#include "core/lease/lease_monitor.hpp"

#include <future>
#include <memory>

namespace syncguard::test {

/// Returns when all handlers that were queued before have begun: the threads take them in order.
inline void await_begun_handlers() {
    const auto begun = std::make_shared<std::promise<void>>();
    lease_monitor::instance().handlers().post([begun] { begun->set_value(); });
    begun->get_future().get();
}

}  // namespace syncguard::test
