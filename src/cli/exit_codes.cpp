#include "cli/exit_codes.hpp"

#include <cerrno>

namespace syncguard::cli::exit_code {

int of_error(error_code code) noexcept {
    switch (code) {
        case error_code::service_unavailable:
        case error_code::network_timeout:
        case error_code::rate_limited:
            return unavailable;
        case error_code::auth_failed:
            return authentication;
        case error_code::invalid_argument:
            return usage;
        case error_code::acquisition_timeout:
            return conflict;
        case error_code::aborted:
        case error_code::internal:
            return internal;
    }
    return internal;
}

int of_exec_failure(int error) noexcept {
    return error == ENOENT ? not_found : cannot_run;
}

namespace {

/// The exit codes of all subcommands.
std::string common_codes(const std::string& conflict_remark) {
    return "  64     wrong usage, or an argument that is not acceptable\n"
           "  69     the backend cannot be reached\n"
           "  70     internal error\n"
           "  75     could not get the lock: another client holds it" +
           conflict_remark +
           "\n"
           "  77     authentication failed, or permission is missing\n";
}

}  // namespace

std::string help_for_program() {
    return std::string(
               "Exit codes:\n"
               "  0      done; for status: locked\n"
               "  1      release, extend, lookup: the lock is not held; status: free\n") +
           common_codes("") +
           "  79     run: the lock was lost while the command ran\n"
           "  126    run: the command cannot be run\n"
           "  127    run: the command was not found\n"
           "  128+N  ended by signal N\n"
           "  other  run: the command's own exit code";
}

std::string help_for_run() {
    return std::string(
               "The command finds SYNCGUARD_KEY, SYNCGUARD_LOCK_ID, SYNCGUARD_FENCE and\n"
               "SYNCGUARD_EXPIRES_AT_MS in its environment. Its lock is renewed while it runs. If\n"
               "the lock is lost, the command gets SIGTERM, then SIGKILL before the TTL ends. A\n"
               "command that is stopped with Ctrl-Z is not renewed: continue it within half the "
               "TTL.\n"
               "Processes that detached from the command, and those below it when syncguard "
               "itself\n"
               "is killed with SIGKILL, are beyond reach; the fence protects against them. So is\n"
               "a command that runs as another user (sudo, setuid): if it has to be ended and\n"
               "cannot be, that is said at once, and 79 is the exit code when it has ended. With\n"
               "--json, one object follows the command's own output.\n"
               "\n"
               "Exit codes:\n") +
           common_codes(" (-E replaces it)") +
           "  79     the lock was lost while the command ran\n"
           "  126    the command cannot be run\n"
           "  127    the command was not found\n"
           "  128+N  signal N ended the command, or the waiting for the lock\n"
           "  other  the command's own exit code";
}

}  // namespace syncguard::cli::exit_code
