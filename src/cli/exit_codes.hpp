/// What the exit codes of the command mean. Pure. The numbers of failures are those of sysexits.h
/// where it has one.
#pragma once

#include <syncguard/error.hpp>

#include <string>

namespace syncguard::cli::exit_code {

inline constexpr int success = 0;
/// `status` of a free lock; `release`, `extend` and `lookup` of one that is not held.
inline constexpr int not_held = 1;
inline constexpr int usage = 64;
inline constexpr int unavailable = 69;
inline constexpr int internal = 70;
/// Another client holds the lock.
inline constexpr int conflict = 75;
inline constexpr int authentication = 77;
/// The lock went away while the command ran.
inline constexpr int lost = 79;
inline constexpr int cannot_run = 126;
inline constexpr int not_found = 127;

/// How shells tell that a signal ended something.
[[nodiscard]] constexpr int of_signal(int signal) noexcept {
    return 128 + signal;
}

/// The exit code of a failure. `aborted` is not in here: only a signal aborts, and `of_signal`
/// knows which.
[[nodiscard]] int of_error(error_code code) noexcept;

/// The exit code of a command that could not be executed, by its `errno`.
[[nodiscard]] int of_exec_failure(int error) noexcept;

/// For the end of `--help`.
[[nodiscard]] std::string help_for_program();
[[nodiscard]] std::string help_for_run();

}  // namespace syncguard::cli::exit_code
