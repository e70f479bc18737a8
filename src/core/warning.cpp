#include "core/warning.hpp"

#include "core/lease/lease_monitor.hpp"
#include "core/lease/pending_release.hpp"
#include "util/deferred_cancellation.hpp"

#include <iostream>
#include <memory>
#include <utility>

namespace syncguard {

namespace {

void warn(const warning_handler& on_warning, const std::string& message) {
    if (on_warning) {
        on_warning(message);
    } else {
        std::cerr << "syncguard: warning: " + message + "\n";
    }
}

}  // namespace

void warn_later(const warning_handler& on_warning, std::string message) noexcept {
    const deferred_cancellation whole_call;
    try {
        // Captures are destroyed in reverse order: the end of the program also waits for the end of
        // what the handler owns.
        lease_monitor::instance().handlers().post(
            [awaited_at_exit = std::make_shared<pending_release>(), on_warning,
             message = std::move(message)] { warn(on_warning, message); });
    } catch (...) {  // no memory to warn with: the operation goes on
    }
}

}  // namespace syncguard
