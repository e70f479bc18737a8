/// Reports failures of releases that cannot be thrown, such as those in destructors.
#pragma once

#include <syncguard/options.hpp>

#include <exception>

namespace syncguard {

/// Passes a failure to `handler`, or to the default handler if it is empty. Never throws.
void report_release_error(const release_error_handler& handler, const std::exception_ptr& failure,
                          const release_error_context& context) noexcept;

}  // namespace syncguard
