/// The command `syncguard`: parses the command line, executes the subcommand, and turns failures
/// into messages and exit codes.
#include "cli/acquisition.hpp"
#include "cli/command.hpp"
#include "cli/exit_codes.hpp"

#include <syncguard/lock_id.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <span>
#include <string>
#include <vector>

namespace syncguard::cli {

namespace {

struct split_command_line {
    std::vector<std::string> own;
    std::vector<std::string> command;  ///< The command line for `run`.
};

/// Separates the part after `--`, because the parser would interpret some of it.
split_command_line split(std::span<char*> arguments) {
    split_command_line parts{.own = {arguments.begin(), arguments.end()}, .command = {}};
    if (parts.own.empty() || parts.own.front() != "run") return parts;
    const auto mark = std::find(parts.own.begin(), parts.own.end(), "--");
    if (mark == parts.own.end()) return parts;
    parts.command.assign(mark + 1, parts.own.end());
    parts.own.erase(mark, parts.own.end());
    return parts;
}

/// One lock id in 64 begins with a dash. Moves such an id behind `--`, so that the parser does not
/// take it for an option. No option has the form of a lock id.
void protect_lock_id(std::vector<std::string>& arguments) {
    if (arguments.empty() || (arguments[0] != "release" && arguments[0] != "extend")) return;
    const auto id = std::find_if(arguments.begin(), arguments.end(), [](const auto& argument) {
        return argument.starts_with('-') && lock_id::is_valid(argument);
    });
    if (id == arguments.end() || *(id - 1) == "--backend") return;
    const std::string text = *id;
    arguments.erase(id);
    const auto mark = std::find(arguments.begin(), arguments.end(), "--");
    if (mark == arguments.end()) arguments.insert(arguments.end(), "--");
    arguments.push_back(text);
}

/// Messages must not repeat a misplaced backend URL, which may contain a password, or a misplaced
/// lock id, with which any client can release the lock.
std::string without_secrets(std::string text) {
    for (auto at = text.find("://"); at != std::string::npos; at = text.find("://", at + 3)) {
        const auto end = std::min(text.find_first_of(" \n", at), text.size());
        text.replace(at + 3, end - at - 3, "...");
    }
    constexpr std::size_t lock_id_length = 22;
    constexpr const char* allowed =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for (auto at = text.find_first_of(allowed); at != std::string::npos;
         at = text.find_first_of(allowed, at)) {
        const auto end = std::min(text.find_first_not_of(allowed, at), text.size());
        const bool may_hold_id = end - at >= lock_id_length;
        if (may_hold_id) text.replace(at, end - at, "...");
        at = may_hold_id ? at : end;
    }
    return text;
}

/// The parser would only report that a subcommand is missing.
void refuse_unknown_subcommand(const CLI::App& program, const std::string& name) {
    const auto matching = program.get_subcommands(
        [&](const CLI::App* subcommand) { return subcommand->get_name() == name; });
    if (name.starts_with('-') || !matching.empty()) return;
    throw CLI::ValidationError("there is no subcommand " + in_quotes(name));
}

int report_bad_usage(const CLI::App& program, const CLI::ParseError& problem, format output) {
    if (problem.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
        return program.exit(problem, std::cout, std::cerr);
    }
    std::string message = without_secrets(problem.what());
    if (output == format::human) {
        const auto chosen = program.get_subcommands();
        message += "\ntry 'syncguard " + (chosen.empty() ? "" : chosen.front()->get_name() + " ") +
                   "--help'";
    }
    print_error(output, error_code::invalid_argument, message);
    return exit_code::usage;
}

int perform(const command& chosen) {
    const auto explain = [&](const std::exception& failure) {
        return chosen.attempt + ": " + failure.what();
    };
    try {
        return chosen.perform();
    } catch (const interrupted& caught) {
        const int code = exit_code::of_signal(caught.signal);
        print_error(chosen.output, error_code::aborted,
                    chosen.attempt + ": interrupted while waiting for the lock");
        return code;
    } catch (const lock_error& failure) {
        print_error(chosen.output, failure.code(), explain(failure));
        return exit_code::of_error(failure.code());
    } catch (const std::exception& failure) {
        print_error(chosen.output, error_code::internal, explain(failure));
        return exit_code::internal;
    }
}

int start(std::span<char*> arguments) {
    auto [own, command_line] = split(arguments);
    protect_lock_id(own);

    CLI::App program("Locks that all processes of a host, or of many, agree on", "syncguard");
    program.set_version_flag("--version", "syncguard " SYNCGUARD_VERSION);
    program.require_subcommand(1);
    program.footer(exit_code::help_for_program());
    command chosen;
    add_run(program, chosen, std::move(command_line));
    add_acquire(program, chosen);
    add_release(program, chosen);
    add_extend(program, chosen);
    add_status(program, chosen);
    add_lookup(program, chosen);
    add_setup(program, chosen);

    if (own.empty()) {
        std::cout << program.help();
        return exit_code::usage;
    }
    // Searched here, because the parser may fail before it reads this option.
    const bool json = std::find(own.begin(), own.end(), "--json") != own.end();
    try {
        refuse_unknown_subcommand(program, own.front());
        std::reverse(own.begin(), own.end());  // CLI11 expects the arguments in reverse order
        program.parse(std::move(own));
    } catch (const CLI::ParseError& problem) {
        return report_bad_usage(program, problem, json ? format::json : format::human);
    }
    return perform(chosen);
}

}  // namespace

}  // namespace syncguard::cli

int main(int count, char** arguments) {
    return syncguard::cli::start({arguments + 1, static_cast<std::size_t>(count - 1)});
}
