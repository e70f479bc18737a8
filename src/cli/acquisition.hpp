/// Acquires a lock for the command line: one attempt or many, and signals end the waiting.
#pragma once

#include "cli/signal_queue.hpp"

#include <syncguard/backend.hpp>

#include <optional>
#include <string_view>

namespace syncguard::cli {

using held_lock = lease<any_capabilities>;

/// How long to wait for a lock. Zero: a single attempt. Nullopt: for ever.
using wait_limit = std::optional<milliseconds>;

/// A signal ended the waiting; nothing is locked.
struct interrupted {
    int signal;
};

/// Throws `interrupted` if a signal is pending.
void throw_if_interrupted(const signal_queue& signals);

/// Throws `lock_error` (`acquisition_timeout` if another client still holds the lock at the end)
/// and `interrupted`. Signals that this process ignores by inheritance (`nohup`) do not interrupt.
[[nodiscard]] held_lock take_lock(const any_backend& locks, std::string_view key, milliseconds ttl,
                                  wait_limit limit, const signal_queue& signals);

}  // namespace syncguard::cli
