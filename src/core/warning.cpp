#include "warning.hpp"

#include <iostream>

namespace syncguard {

void warn(const warning_handler& on_warning, const std::string& message) noexcept {
    try {
        if (on_warning) {
            on_warning(message);
        } else {
            std::cerr << "syncguard: warning: " + message + "\n";
        }
    } catch (...) {  // what was to be warned of goes on
    }
}

}  // namespace syncguard
