/// The exit codes of the command. Pure. Failures have the numbers of sysexits.h if it has one.
#pragma once

#include <syncguard/error.hpp>

#include <string>

namespace syncguard::cli::exit_code {

inline constexpr int success = 0;
/// `status`: the lock is free; `release`, `extend` and `lookup`: the lock is not held.
inline constexpr int not_held = 1;
inline constexpr int usage = 64;
inline constexpr int unavailable = 69;
inline constexpr int internal = 70;
/// Another client holds the lock.
inline constexpr int conflict = 75;
inline constexpr int authentication = 77;
/// The lock was lost while the command ran.
inline constexpr int lost = 79;
inline constexpr int cannot_run = 126;
inline constexpr int not_found = 127;

/// The exit code by which shells report a process that a signal ended.
[[nodiscard]] constexpr int of_signal(int signal) noexcept {
    return 128 + signal;
}

/// The exit code of a failure. Not for `aborted`: only signals abort, and `of_signal` gives their
/// codes.
[[nodiscard]] int of_error(error_code code) noexcept;

/// The exit code of a command that could not be executed, by its `errno`.
[[nodiscard]] int of_exec_failure(int error) noexcept;

/// For the end of `--help`.
[[nodiscard]] std::string help_for_program();
[[nodiscard]] std::string help_for_run();

}  // namespace syncguard::cli::exit_code
