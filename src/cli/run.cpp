/// `syncguard run KEY -- COMMAND`: runs a command while holding a lock.
#include "cli/acquisition.hpp"
#include "cli/child_process.hpp"
#include "cli/command.hpp"
#include "cli/common_options.hpp"
#include "cli/exit_codes.hpp"
#include "cli/supervisor.hpp"

#include <syncguard/options.hpp>

#include <CLI/CLI.hpp>

#include <chrono>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

namespace syncguard::cli {

namespace {

struct run_arguments {
    common_options common;
    std::string key;
    milliseconds ttl = default_ttl;
    wait_limit limit;
    int conflict_exit_code = exit_code::conflict;
    std::vector<std::string> command_line;
};

/// Shows the command after `--` in the usage line; the parser does not know about it.
class run_help : public CLI::Formatter {
  public:
    std::string make_usage(const CLI::App*, std::string) const override {
        return "Usage: syncguard run [OPTIONS] KEY -- COMMAND [ARGUMENT...]\n";
    }
};

environment describe_to_child(const held_lock& lock) {
    return {
        {"SYNCGUARD_KEY", std::string(lock.key())},
        {"SYNCGUARD_LOCK_ID", lock.lock_id().to_string()},
        {"SYNCGUARD_FENCE", lock.fence().to_string()},
        {"SYNCGUARD_EXPIRES_AT_MS", std::to_string(lock.expires_at().time_since_epoch().count())}};
}

int report_loss(const run_arguments& arguments, const std::string& cause) {
    print_refusal(arguments.common.output(), "lost",
                  "lost the lock " + in_quotes(arguments.key) + ": " + cause, cause);
    return exit_code::lost;
}

/// False if the lock was gone. Retries for five seconds if the server cannot be reached: until the
/// release or the end of the lock no other client can acquire it.
bool release(held_lock& lock, const std::string& key) {
    constexpr auto retry_time = std::chrono::seconds{5};
    constexpr auto pause = std::chrono::milliseconds{100};
    const auto give_up_at = std::chrono::steady_clock::now() + retry_time;
    for (bool outcome_unknown = false;; outcome_unknown = true) {
        try {
            const bool released = lock.release().ok;
            if (released || !outcome_unknown) return released;
            print_warning(in_quotes(key) +
                          " is free, but nobody can say by whom: the backend was away when it was "
                          "released first");
            return true;
        } catch (const lock_error& failure) {
            const bool is_transient = failure.code() == error_code::service_unavailable;
            if (!is_transient || std::chrono::steady_clock::now() + pause > give_up_at) throw;
        }
        std::this_thread::sleep_for(pause);
    }
}

int run_with(held_lock lock, const run_arguments& arguments, const signal_queue& signals) {
    // A signal that came before the command was started ends this process.
    throw_if_interrupted(signals);
    if (!lock.valid()) {
        throw lock_error(error_code::network_timeout,
                         "its time was over before the command could start; use a longer --ttl");
    }
    supervisor supervision(lock, arguments.ttl, signals);
    child_process child(arguments.command_line, describe_to_child(lock), signals,
                        supervision.deadline());

    if (auto loss = supervision.watch(child)) {
        // The store may still have the lock, so there is one short attempt to release it.
        try {
            (void)lock.release({.timeout = std::chrono::seconds{1}});
        } catch (const lock_error&) {
            lock.detach();
        }
        return report_loss(arguments, *loss);
    }
    if (const auto failure = child.start_failure()) {
        print_error(arguments.common.output(), error_code::invalid_argument,
                    "cannot run " + in_quotes(arguments.command_line.front()) + ": " +
                        std::generic_category().message(*failure));
        return exit_code::of_exec_failure(*failure);
    }

    try {
        if (!release(lock, arguments.key)) {
            return report_loss(arguments, "when the command ended (exit code " +
                                              std::to_string(child.exit_code()) +
                                              "), it was already released or expired");
        }
    } catch (const lock_error& failure) {
        // Only a warning: the command held the lock to its end, although the lock now stays until
        // it expires.
        print_warning("cannot release " + in_quotes(arguments.key) +
                      ", it will expire by itself at " + to_iso_text(lock.expires_at()) + ": " +
                      failure.what());
        lock.detach();
    }
    if (arguments.common.json) {
        print_result(format::json, {{"lockId", "lock-id", lock.lock_id().to_string()},
                                    {"fence", "fence", lock.fence().to_string()},
                                    {"exitCode", "exit-code", child.exit_code()}});
    }
    return child.exit_code();
}

int run(const run_arguments& arguments) {
    const signal_queue signals;
    const auto locks = arguments.common.open();
    try {
        return run_with(take_lock(locks, arguments.key, arguments.ttl, arguments.limit, signals),
                        arguments, signals);
    } catch (const lock_error& failure) {
        if (failure.code() != error_code::acquisition_timeout) throw;
        print_refusal(arguments.common.output(), to_string(failure_reason::locked),
                      describe_conflict(arguments.key, arguments.limit));
        return arguments.conflict_exit_code;
    }
}

}  // namespace

void add_run(CLI::App& program, command& chosen, std::vector<std::string> command_line) {
    auto& subcommand = *program.add_subcommand("run", "Run a command while holding a lock");
    subcommand.formatter(std::make_shared<run_help>());
    subcommand.footer(exit_code::help_for_run());
    const auto arguments = std::make_shared<run_arguments>();
    arguments->command_line = std::move(command_line);
    add_key_argument(subcommand, arguments->key);
    add_ttl_option(subcommand, arguments->ttl);
    add_wait_options(subcommand, arguments->limit);
    subcommand
        .add_option("-E,--conflict-exit-code", arguments->conflict_exit_code,
                    "The exit code if the lock cannot be had (default: 75)")
        ->type_name("N")
        ->check(CLI::Range(0, 255));
    add_common_options(subcommand, arguments->common);
    subcommand.callback([arguments, &chosen] {
        if (arguments->command_line.empty()) {
            throw CLI::ValidationError(
                "run needs a command after '--': syncguard run KEY -- COMMAND [ARGUMENT...]");
        }
        chosen = {.perform = [arguments] { return run(*arguments); },
                  .attempt = "cannot run under the lock " + in_quotes(arguments->key),
                  .output = arguments->common.output()};
    });
}

}  // namespace syncguard::cli
