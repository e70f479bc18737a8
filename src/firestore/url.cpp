#include "core/backend_url.hpp"

#include <syncguard/error.hpp>
#include <syncguard/firestore.hpp>

#include <algorithm>
#include <charconv>
#include <string>

namespace syncguard::firestore {

namespace {

[[noreturn]] void refuse(const std::string& message) {
    throw lock_error(error_code::invalid_argument, message);
}

std::int64_t number_in(std::string_view text, const char* option, std::int64_t max) {
    std::int64_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc{} || end != text.data() + text.size() || value < 1 || value > max) {
        refuse(std::string("the ") + option + " in a Firestore URL is a number from 1 to " +
               std::to_string(max));
    }
    return value;
}

void read_location(std::string_view body, options& read) {
    if (!body.starts_with("//")) refuse("a Firestore URL begins with firestore://");
    body.remove_prefix(2);
    const auto slash = std::min(body.find('/'), body.size());
    read.project = percent_decoded(body.substr(0, slash));
    std::string_view database = body.substr(slash);
    if (!database.empty()) database.remove_prefix(1);
    if (database.ends_with('/')) database.remove_suffix(1);
    if (!database.empty()) read.database = percent_decoded(database);
    if (read.project.empty()) {
        refuse(
            "a Firestore URL names a project: firestore://PROJECT or firestore://PROJECT/DATABASE");
    }
}

void read_option(std::string_view name, const std::string& value, options& read) {
    if (name == "locks_collection") {
        read.locks_collection = value;
    } else if (name == "fence_counters_collection") {
        read.fence_counters_collection = value;
    } else if (name == "emulator_host") {
        read.emulator_host = value;
    } else if (name == "endpoint") {
        read.endpoint = value;
    } else if (name == "ca_file") {
        read.ca_file = value;
    } else if (name == "credentials_file") {
        read.credentials_file = value;
    } else if (name == "connect_timeout_ms") {
        constexpr std::int64_t a_day = 86'400'000;
        read.connect_timeout = milliseconds(number_in(value, "connect_timeout_ms", a_day));
    } else if (name == "most_connections") {
        read.most_connections = static_cast<std::size_t>(number_in(value, "most_connections", 64));
    } else if (name == "cleanup_in_is_locked") {
        if (value != "true" && value != "false") {
            refuse("cleanup_in_is_locked in a Firestore URL is true or false");
        }
        read.cleanup_in_is_locked = value == "true";
    } else if (name == "on_clock_skew") {
        if (value != "warn" && value != "refuse") {
            refuse("on_clock_skew in a Firestore URL is warn or refuse");
        }
        read.on_clock_skew = value == "warn" ? on_clock_skew::warn : on_clock_skew::refuse;
    } else {
        refuse("a Firestore URL has no option '" + std::string(name) + "'");
    }
}

}  // namespace

options parse_url(std::string_view url) {
    const backend_url parts(url);
    if (parts.scheme() != "firestore") refuse("a Firestore URL begins with firestore://");
    options read;
    read_location(parts.body(), read);
    for (const auto& [name, value] : parts.options())
        read_option(name, value, read);
    return read;
}

}  // namespace syncguard::firestore
