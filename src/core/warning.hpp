/// Warnings for the operator. Shared by all engines.
#pragma once

#include <syncguard/options.hpp>

#include <string>

namespace syncguard {

/// Tells the handler, or the standard error if there is none. A warning fails nothing.
void warn(const warning_handler& on_warning, const std::string& message) noexcept;

}  // namespace syncguard
