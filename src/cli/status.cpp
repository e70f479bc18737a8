/// `syncguard status KEY`: whether a lock is held.
#include "cli/command.hpp"
#include "cli/common_options.hpp"
#include "cli/exit_codes.hpp"

#include <CLI/CLI.hpp>

#include <memory>

namespace syncguard::cli {

namespace {

struct status_arguments {
    common_options common;
    std::string key;
};

int status(const status_arguments& arguments) {
    const bool locked = arguments.common.open().is_locked(arguments.key);
    print_answer(arguments.common.output(), "locked", locked, locked ? "locked" : "free");
    return locked ? exit_code::success : exit_code::not_held;
}

}  // namespace

void add_status(CLI::App& program, command& chosen) {
    auto& subcommand = *program.add_subcommand("status", "Say whether a lock is held");
    const auto arguments = std::make_shared<status_arguments>();
    add_key_argument(subcommand, arguments->key);
    add_common_options(subcommand, arguments->common);
    subcommand.callback([arguments, &chosen] {
        chosen = {.perform = [arguments] { return status(*arguments); },
                  .attempt = "cannot tell whether " + in_quotes(arguments->key) + " is locked",
                  .output = arguments->common.output()};
    });
}

}  // namespace syncguard::cli
