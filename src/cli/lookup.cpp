/// `syncguard lookup`: shows the data of a lock.
#include "cli/command.hpp"
#include "cli/common_options.hpp"
#include "cli/exit_codes.hpp"

#include <syncguard/diagnostics.hpp>

#include <CLI/CLI.hpp>

#include <memory>
#include <optional>

namespace syncguard::cli {

namespace {

struct lookup_arguments {
    common_options common;
    std::optional<std::string> key;
    std::optional<std::string> lock_id;
    bool raw = false;

    /// Without the lock id: messages may be logged, and any client that knows the id can release
    /// the lock.
    [[nodiscard]] std::string target() const { return key ? in_quotes(*key) : "the given lock id"; }
};

using sanitised = lock_info<any_capabilities>;
using sensitive = lock_info_debug<any_capabilities>;

std::vector<field> describe(const sanitised& info) {
    return {{"keyHash", "key-hash", info.key_hash},
            {"lockIdHash", "lock-id-hash", info.lock_id_hash},
            {"fence", "fence", info.fence.to_string()},
            {"acquiredAtMs", "acquired", info.acquired_at},
            {"expiresAtMs", "expires", info.expires_at}};
}

std::vector<field> describe(const sensitive& info) {
    std::vector<field> fields{{"key", "key", info.key}, {"lockId", "lock-id", info.lock_id}};
    for (auto& each : describe(static_cast<const sanitised&>(info)))
        fields.push_back(std::move(each));
    return fields;
}

template <class Info>
int answer(const lookup_arguments& arguments, const std::optional<Info>& found) {
    const auto output = arguments.common.output();
    if (!found) {
        print_refusal(output, to_string(failure_reason::not_found),
                      "there is no live lock for " + arguments.target());
        return exit_code::not_held;
    }
    print_result(output, describe(*found));
    return exit_code::success;
}

int lookup(const lookup_arguments& arguments) {
    const auto locks = arguments.common.open();
    if (arguments.raw) {
        return answer(arguments, arguments.key ? get_by_key_raw(locks, *arguments.key)
                                               : get_by_id_raw(locks, *arguments.lock_id));
    }
    return answer(arguments, arguments.key ? get_by_key(locks, *arguments.key)
                                           : get_by_id(locks, *arguments.lock_id));
}

}  // namespace

void add_lookup(CLI::App& program, command& chosen) {
    auto& subcommand = *program.add_subcommand("lookup", "Show what is known of a lock");
    const auto arguments = std::make_shared<lookup_arguments>();
    auto& selector = *subcommand.add_option_group("which", "Which lock; exactly one of these");
    selector.add_option("--key", arguments->key, "The lock of this key")->type_name("KEY");
    selector.add_option("--id", arguments->lock_id, "The lock with this id")->type_name("LOCK_ID");
    selector.require_option(1);
    subcommand.add_flag("--raw", arguments->raw,
                        "Show the key and the lock id themselves, not only hashes. Who knows the "
                        "lock id can release the lock");
    add_common_options(subcommand, arguments->common);
    subcommand.callback([arguments, &chosen] {
        chosen = {.perform = [arguments] { return lookup(*arguments); },
                  .attempt = "cannot look up " + arguments->target(),
                  .output = arguments->common.output()};
    });
}

}  // namespace syncguard::cli
