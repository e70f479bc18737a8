/// The options that several subcommands share.
#pragma once

#include "cli/acquisition.hpp"
#include "cli/output.hpp"

#include <syncguard/backend.hpp>

#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace syncguard::cli {

/// The backend and the output format.
struct common_options {
    std::optional<std::string> backend;  ///< Nullopt: the default store.
    /// `backend_options::clock_drift`.
    double clock_drift = backend_options{}.clock_drift;
    bool json = false;

    [[nodiscard]] format output() const noexcept { return json ? format::json : format::human; }
    /// Throws `lock_error`.
    [[nodiscard]] any_backend open() const;
};

// The structs must live as long as the parser.

void add_common_options(CLI::App& subcommand, common_options& options);
void add_ttl_option(CLI::App& subcommand, milliseconds& ttl);
/// `--no-wait` and `--wait`. Without them, `limit` keeps its value.
void add_wait_options(CLI::App& subcommand, wait_limit& limit);
void add_key_argument(CLI::App& subcommand, std::string& key);
void add_lock_id_argument(CLI::App& subcommand, std::string& id);

/// The message if another client holds the lock.
[[nodiscard]] std::string describe_conflict(std::string_view key, wait_limit limit);

}  // namespace syncguard::cli
