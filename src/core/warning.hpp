/// Warnings for the operator. Shared by all engines.
#pragma once

#include <syncguard/options.hpp>

#include <string>

namespace syncguard {

/// Passes a warning to the handler, or to the standard error if there is none, on a thread that
/// runs only handlers: the calling thread may perform the I/O of other callers, or hold a mutex
/// that the handler needs. The normal end of the program waits for it for at most a second.
void warn_later(const warning_handler& on_warning, std::string message) noexcept;

}  // namespace syncguard
