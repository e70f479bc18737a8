/// `syncguard extend LOCK_ID`: extends a lock.
#include "cli/command.hpp"
#include "cli/common_options.hpp"
#include "cli/exit_codes.hpp"

#include <syncguard/options.hpp>

#include <CLI/CLI.hpp>

#include <memory>

namespace syncguard::cli {

namespace {

struct extend_arguments {
    common_options common;
    std::string lock_id;
    milliseconds ttl = default_ttl;
};

int extend(const extend_arguments& arguments) {
    const auto output = arguments.common.output();
    const auto result = arguments.common.open().extend(arguments.lock_id, {.ttl = arguments.ttl});
    if (result) {
        print_result(output, {{"expiresAtMs", "expires", result.expires_at}});
        return exit_code::success;
    }
    print_refusal(output, {},
                  "the lock is not held: it was released or has expired; acquire it again");
    return exit_code::not_held;
}

}  // namespace

void add_extend(CLI::App& program, command& chosen) {
    auto& subcommand = *program.add_subcommand("extend", "Let a lock live on, from now");
    const auto arguments = std::make_shared<extend_arguments>();
    add_lock_id_argument(subcommand, arguments->lock_id);
    add_ttl_option(subcommand, arguments->ttl);
    add_common_options(subcommand, arguments->common);
    subcommand.callback([arguments, &chosen] {
        chosen = {.perform = [arguments] { return extend(*arguments); },
                  .attempt = "cannot extend the lock",
                  .output = arguments->common.output()};
    });
}

}  // namespace syncguard::cli
