#include "core/lease/release_errors.hpp"

#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

namespace syncguard {

namespace {

bool environment_says(const char* variable, std::string_view value) noexcept {
    const char* text = std::getenv(variable);
    return text != nullptr && text == value;
}

/// Prints the code, but not the message: the message of an engine could contain a key.
void print_by_default(const lock_error& failure, const release_error_context& context) {
    if (environment_says("SYNCGUARD_ENV", "production") &&
        !environment_says("SYNCGUARD_DEBUG", "true")) {
        return;
    }
    std::string line = "syncguard: a lock could not be released (";
    line.append(to_string(failure.code())).append(", source: ").append(to_string(context.source));
    line.append("); it ends with its TTL. Set on_release_error to learn more\n");
    std::cerr << line;
}

lock_error as_lock_error(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const lock_error& error) {
        return error;
    } catch (const std::exception& other) {
        return {error_code::internal, other.what(), {}, failure};
    } catch (...) {
        return {error_code::internal, "an exception of unknown type", {}, failure};
    }
}

}  // namespace

void report_release_error(const release_error_handler& handler, const std::exception_ptr& failure,
                          const release_error_context& context) noexcept {
    try {
        const lock_error error = as_lock_error(failure);
        if (handler) {
            handler(error, context);
        } else {
            print_by_default(error, context);
        }
    } catch (...) {  // called from destructors
    }
}

}  // namespace syncguard
