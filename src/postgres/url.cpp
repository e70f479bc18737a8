/// PostgreSQL URLs: libpq's URLs with additional options.
#include "core/backend_url.hpp"

#include <syncguard/error.hpp>
#include <syncguard/postgres.hpp>

#include <algorithm>
#include <charconv>
#include <memory>
#include <new>
#include <string>

#include <libpq-fe.h>

namespace syncguard::postgres {

namespace {

[[noreturn]] void refuse(const std::string& message) {
    throw lock_error(error_code::invalid_argument, message);
}

std::int64_t number_in(const std::string& text, std::string_view name, std::int64_t most) {
    std::int64_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc{} || end != text.data() + text.size() || value < 1 || value > most) {
        refuse(std::string(name) + " in a PostgreSQL URL is a number from 1 to " +
               std::to_string(most));
    }
    return value;
}

/// False for options of libpq.
bool read_option(std::string_view name, const std::string& value, options& read) {
    constexpr std::int64_t a_day_in_ms = 86'400'000;
    constexpr std::int64_t largest_pool = 100;
    if (name == "locks_table") {
        read.tables.locks = value;
    } else if (name == "fence_counters_table") {
        read.tables.fence_counters = value;
    } else if (name == "pool_size") {
        read.pool_size = static_cast<std::size_t>(number_in(value, name, largest_pool));
    } else if (name == "connect_timeout_ms") {
        read.connect_timeout = milliseconds(number_in(value, name, a_day_in_ms));
    } else if (name == "statement_timeout_ms") {
        read.statement_timeout = milliseconds(number_in(value, name, a_day_in_ms));
    } else if (name == "cleanup_in_is_locked") {
        if (value != "true" && value != "false") {
            refuse("cleanup_in_is_locked in a PostgreSQL URL is true or false");
        }
        read.cleanup_in_is_locked = value == "true";
    } else {
        return false;
    }
    return true;
}

/// Whether libpq accepts the option in a URL.
bool is_option_of_libpq(const std::string& name) {
    if (name == "ssl") return true;
    struct freer {
        void operator()(PQconninfoOption* list) const noexcept { PQconninfoFree(list); }
    };
    const std::unique_ptr<PQconninfoOption, freer> libpq_options(PQconndefaults());
    if (!libpq_options) throw std::bad_alloc();
    for (const auto* each = libpq_options.get(); each->keyword != nullptr; ++each) {
        if (name == each->keyword) return true;
    }
    return false;
}

}  // namespace

options parse_url(std::string_view url) {
    const backend_url parts(url);
    if ((parts.scheme() != "postgres" && parts.scheme() != "postgresql") ||
        !parts.body().starts_with("//")) {
        refuse("a PostgreSQL URL begins with postgres:// or postgresql://");
    }
    options read;
    read.connection = "postgresql:" + parts.body();
    char separator = '?';
    const auto question = std::min(url.find('?'), url.size());
    std::string_view rest = url.substr(std::min(question + 1, url.size()));
    while (!rest.empty()) {
        const auto end = std::min(rest.find('&'), rest.size());
        const std::string_view option = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        const auto equals = std::min(option.find('='), option.size());
        const std::string name = percent_decoded(option.substr(0, equals));
        const auto found = parts.options().find(name);
        if (found != parts.options().end() && read_option(name, found->second, read)) continue;
        if (!is_option_of_libpq(name)) {
            refuse("neither PostgreSQL nor SyncGuard has an option '" + name + "' for its URL");
        }
        read.connection.append(1, separator).append(option);
        separator = '&';
    }
    return read;
}

}  // namespace syncguard::postgres
