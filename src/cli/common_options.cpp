#include "cli/common_options.hpp"

#include "cli/duration.hpp"

#include <syncguard/connect.hpp>

#include <CLI/CLI.hpp>

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace syncguard::cli {

namespace {

constexpr const char* backend_variable = "SYNCGUARD_BACKEND";

/// Makes a parser callback of a function of duration.hpp.
template <class Read>
auto reader(milliseconds (*parse)(std::string_view), Read assign) {
    return [parse, assign](const std::string& text) {
        try {
            assign(parse(text));
        } catch (const bad_duration& problem) {
            throw CLI::ValidationError(problem.what());
        }
    };
}

/// Reads a percentage, such as `8%` or `2.5%`, as a fraction.
double read_clock_drift(const std::string& text) {
    constexpr double least = 1;
    constexpr double most = 50;
    double percentage = 0;
    const auto* const text_end = text.data() + text.size();
    const auto [end, error] =
        std::from_chars(text.data(), text_end, percentage, std::chars_format::fixed);
    const bool is_percentage =
        error == std::errc{} && std::string_view(end, text_end) == std::string_view("%");
    if (!is_percentage || !(percentage >= least && percentage <= most)) {
        throw CLI::ValidationError("'" + text +
                                   "' is no clock drift: write a percentage from 1% to 50%");
    }
    return percentage / 100;
}

}  // namespace

any_backend common_options::open() const {
    // An empty variable is probably a mistake in a deployment: without this check, each host would
    // silently use its own store.
    if (!backend && std::getenv(backend_variable) != nullptr) {
        throw lock_error(
            error_code::invalid_argument,
            std::string(backend_variable) + " is set but empty; unset it or give a URL");
    }
    auto opened = connect(backend.value_or("sqlite:"), {.clock_drift = clock_drift});
    if (opened.capabilities().backend == "memory") {
        throw lock_error(
            error_code::invalid_argument,
            "'memory:' lives in one process only, so a command would lock nothing; use "
            "sqlite: for the processes of a host");
    }
    return opened;
}

void add_common_options(CLI::App& subcommand, common_options& options) {
    subcommand
        .add_option("--backend", options.backend,
                    "Where the locks are: a URL such as sqlite:, sqlite:/path/locks.db, "
                    "redis://host, postgres://host/database or firestore://project (default: "
                    "sqlite:)")
        ->envname(backend_variable)
        ->type_name("URL");
    subcommand
        .add_option_function<std::string>(
            "--clock-drift",
            [&options](const std::string& text) { options.clock_drift = read_clock_drift(text); },
            "How much faster the backend's clock may run than this host's: a lock counts as over "
            "this part of its TTL earlier (default: 1%)")
        ->type_name("PERCENT");
    subcommand.add_flag("--json", options.json, "Answer with one JSON object");
}

void add_ttl_option(CLI::App& subcommand, milliseconds& ttl) {
    subcommand
        .add_option_function<std::string>(
            "--ttl", reader(&parse_duration, [&ttl](milliseconds value) { ttl = value; }),
            "How long the lock lives: 500ms, 30s, 5m, 2h (default: " + to_text(ttl) + ")")
        ->type_name("DURATION");
}

void add_wait_options(CLI::App& subcommand, wait_limit& limit) {
    const std::string otherwise = limit ? "one attempt" : "wait for ever";
    auto* never = subcommand.add_flag_callback(
        "-n,--no-wait", [&limit] { limit = milliseconds{0}; }, "Make one attempt, do not wait");
    subcommand
        .add_option_function<std::string>(
            "-w,--wait", reader(&parse_seconds, [&limit](milliseconds value) { limit = value; }),
            "Wait so long for the lock: 5, 0.25 (default: " + otherwise + ")")
        ->type_name("SECONDS")
        ->excludes(never);
}

void add_key_argument(CLI::App& subcommand, std::string& key) {
    subcommand.add_option("KEY", key, "The name of what is locked")->required()->type_name("");
}

void add_lock_id_argument(CLI::App& subcommand, std::string& id) {
    subcommand.add_option("LOCK_ID", id, "The lock id that acquire printed")
        ->required()
        ->type_name("");
}

std::string describe_conflict(std::string_view key, wait_limit limit) {
    std::string text = in_quotes(key) + " is locked by another client";
    if (limit && *limit > milliseconds{0}) text += ", and was for " + to_text(*limit);
    return text + "; wait longer with --wait, or see who holds it with 'syncguard lookup --key'";
}

}  // namespace syncguard::cli
