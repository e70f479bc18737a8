/// `syncguard acquire KEY`: acquires a lock and keeps it locked, for scripts that release it by its
/// id.
#include "cli/acquisition.hpp"
#include "cli/command.hpp"
#include "cli/common_options.hpp"
#include "cli/exit_codes.hpp"

#include <syncguard/options.hpp>

#include <CLI/CLI.hpp>

#include <memory>

namespace syncguard::cli {

namespace {

struct acquire_arguments {
    common_options common;
    std::string key;
    milliseconds ttl = default_ttl;
    wait_limit limit = milliseconds{0};
};

int acquire(const acquire_arguments& arguments) {
    // If the reader of the output has gone, the write must fail instead of ending this process, so
    // that the lock is released.
    (void)::signal(SIGPIPE, SIG_IGN);
    const signal_queue signals;
    const auto locks = arguments.common.open();
    try {
        auto lock = take_lock(locks, arguments.key, arguments.ttl, arguments.limit, signals);
        print_result(arguments.common.output(), {{"lockId", "lock-id", lock.lock_id().to_string()},
                                                 {"fence", "fence", lock.fence().to_string()},
                                                 {"expiresAtMs", "expires", lock.expires_at()}});
        lock.detach();
        return exit_code::success;
    } catch (const lock_error& failure) {
        if (failure.code() != error_code::acquisition_timeout) throw;
        print_refusal(arguments.common.output(), to_string(failure_reason::locked),
                      describe_conflict(arguments.key, arguments.limit));
        return exit_code::conflict;
    }
}

}  // namespace

void add_acquire(CLI::App& program, command& chosen) {
    auto& subcommand = *program.add_subcommand("acquire", "Take a lock and leave it locked");
    const auto arguments = std::make_shared<acquire_arguments>();
    add_key_argument(subcommand, arguments->key);
    add_ttl_option(subcommand, arguments->ttl);
    add_wait_options(subcommand, arguments->limit);
    add_common_options(subcommand, arguments->common);
    subcommand.callback([arguments, &chosen] {
        chosen = {.perform = [arguments] { return acquire(*arguments); },
                  .attempt = "cannot acquire " + in_quotes(arguments->key),
                  .output = arguments->common.output()};
    });
}

}  // namespace syncguard::cli
