/// `syncguard setup`: prepares a store for locks.
#include "cli/command.hpp"
#include "cli/common_options.hpp"
#include "cli/exit_codes.hpp"

#ifdef SYNCGUARD_WITH_POSTGRES
#include <syncguard/postgres.hpp>
#endif

#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>

namespace syncguard::cli {

namespace {

struct setup_arguments {
    common_options common;
    bool print = false;
};

#ifdef SYNCGUARD_WITH_POSTGRES
int setup_postgres(const setup_arguments& arguments) {
    const auto opts = postgres::parse_url(*arguments.common.backend);
    if (arguments.print) {
        std::cout << postgres::schema_sql(opts.tables) << std::flush;
        if (!std::cout) throw output_failed();
        return exit_code::success;
    }
    postgres::backend(opts).setup_schema();
    print_done(arguments.common.output(), "the tables are there");
    return exit_code::success;
}
#endif

int setup(const setup_arguments& arguments) {
    // Throws if the URL is no backend, or its engine is not in this build.
    const auto backend = arguments.common.open();
#ifdef SYNCGUARD_WITH_POSTGRES
    if (backend.capabilities().backend == postgres::capabilities::backend) {
        return setup_postgres(arguments);
    }
#endif
    if (arguments.print) {
        throw lock_error(error_code::invalid_argument, "only PostgreSQL has SQL to print");
    }
    print_done(arguments.common.output(), "this backend needs no setup");
    return exit_code::success;
}

}  // namespace

void add_setup(CLI::App& program, command& chosen) {
    auto& subcommand = *program.add_subcommand(
        "setup", "Make what the backend needs: the tables of PostgreSQL. Safe to repeat");
    const auto arguments = std::make_shared<setup_arguments>();
    add_common_options(subcommand, arguments->common);
    subcommand.add_flag("--print", arguments->print, "Print the SQL instead of running it");
    subcommand.callback([arguments, &chosen] {
        chosen = {.perform = [arguments] { return setup(*arguments); },
                  .attempt = "cannot set up the backend",
                  .output = arguments->common.output()};
    });
}

}  // namespace syncguard::cli
