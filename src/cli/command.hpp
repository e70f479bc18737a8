/// The subcommands, as the main program sees them. Each is in a file of its own.
#pragma once

#include "cli/output.hpp"

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace syncguard::cli {

/// What the command line asks for. Filled in while it is parsed, called afterwards.
struct command {
    /// Does it and returns the exit code. May throw `lock_error` and `interrupted`.
    std::function<int()> perform;
    /// What to say before the reason if it fails: "cannot acquire 'KEY'".
    std::string attempt;
    format output = format::human;
};

void add_acquire(CLI::App& program, command& chosen);
void add_extend(CLI::App& program, command& chosen);
void add_lookup(CLI::App& program, command& chosen);
void add_release(CLI::App& program, command& chosen);
/// `command_line` is what followed `--`: it is not the parser's business.
void add_run(CLI::App& program, command& chosen, std::vector<std::string> command_line);
void add_setup(CLI::App& program, command& chosen);
void add_status(CLI::App& program, command& chosen);

}  // namespace syncguard::cli
