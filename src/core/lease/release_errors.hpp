/// Where failures go that no exception can carry: releases in destructors.
#pragma once

#include <syncguard/options.hpp>

#include <exception>

namespace syncguard {

/// Hands a failure to `handler`, or to the default where that is empty. Never throws.
void report_release_error(const release_error_handler& handler, const std::exception_ptr& failure,
                          const release_error_context& context) noexcept;

}  // namespace syncguard
