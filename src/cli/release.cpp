/// `syncguard release LOCK_ID`: releases a lock.
#include "cli/command.hpp"
#include "cli/common_options.hpp"
#include "cli/exit_codes.hpp"

#include <CLI/CLI.hpp>

#include <memory>

namespace syncguard::cli {

namespace {

struct release_arguments {
    common_options common;
    std::string lock_id;
};

int release(const release_arguments& arguments) {
    const auto output = arguments.common.output();
    if (arguments.common.open().release(arguments.lock_id)) {
        print_done(output, "released");
        return exit_code::success;
    }
    print_refusal(output, {},
                  "the lock is not held: it was released or has expired; nothing was changed");
    return exit_code::not_held;
}

}  // namespace

void add_release(CLI::App& program, command& chosen) {
    auto& subcommand = *program.add_subcommand("release", "Free a lock by its id");
    const auto arguments = std::make_shared<release_arguments>();
    add_lock_id_argument(subcommand, arguments->lock_id);
    add_common_options(subcommand, arguments->common);
    subcommand.callback([arguments, &chosen] {
        chosen = {.perform = [arguments] { return release(*arguments); },
                  .attempt = "cannot release the lock",
                  .output = arguments->common.output()};
    });
}

}  // namespace syncguard::cli
