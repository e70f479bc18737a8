/// The interface between the main program and the subcommands. Each subcommand has its own file.
#pragma once

#include "cli/output.hpp"

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace syncguard::cli {

/// The chosen subcommand. The parser's callbacks fill it in; the main program then calls `perform`.
struct command {
    /// Executes the subcommand and returns the exit code. May throw `lock_error` and `interrupted`.
    std::function<int()> perform;
    /// The beginning of the message for a failure: "cannot acquire 'KEY'".
    std::string attempt;
    format output = format::human;
};

void add_acquire(CLI::App& program, command& chosen);
void add_extend(CLI::App& program, command& chosen);
void add_lookup(CLI::App& program, command& chosen);
void add_release(CLI::App& program, command& chosen);
/// `command_line`: the arguments after `--`, which are not parsed.
void add_run(CLI::App& program, command& chosen, std::vector<std::string> command_line);
void add_setup(CLI::App& program, command& chosen);
void add_status(CLI::App& program, command& chosen);

}  // namespace syncguard::cli
