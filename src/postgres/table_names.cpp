#include "table_names.hpp"

#include <syncguard/error.hpp>
#include <syncguard/key.hpp>

#include <algorithm>
#include <string_view>

namespace syncguard::postgres {

namespace {

/// Longer ones are cut off by the server, and could then mean the same.
constexpr std::size_t longest_identifier = 63;

bool is_identifier(std::string_view text) {
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
    const auto is_allowed = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); };
    return !text.empty() && text.size() <= longest_identifier && is_letter(text.front()) &&
           std::all_of(text.begin(), text.end(), is_allowed);
}

std::string in_quotes(std::string_view name) {
    std::string quoted("\"");
    return quoted.append(name).append("\"");
}

struct table {
    std::string schema;  ///< Empty: wherever the server finds it.
    std::string name;

    [[nodiscard]] std::string quoted() const {
        if (schema.empty()) return in_quotes(name);
        return in_quotes(schema).append(".").append(in_quotes(name));
    }
};

table read(std::string text, const char* which) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    const auto dot = text.find('.');
    table read;
    if (dot != std::string::npos) read.schema = text.substr(0, dot);
    read.name = dot == std::string::npos ? text : text.substr(dot + 1);
    if (!is_identifier(read.name) || (dot != std::string::npos && !is_identifier(read.schema))) {
        throw lock_error(error_code::invalid_argument,
                         std::string("the name of the table for ") + which +
                             " must be an SQL identifier: a letter or '_', then letters, digits "
                             "and '_', at most 63 in all, with or without a schema before it");
    }
    return read;
}

std::string index_name(const std::string& table_name) {
    constexpr std::string_view ending = "_expires_at_ms";
    std::string name = table_name;
    if (name.size() + ending.size() > longest_identifier) {
        // Cut off, two names could become one.
        constexpr std::size_t kept = 24;
        name.resize(kept);
        name.append("_").append(hash_key(table_name));
    }
    return name.append(ending);
}

}  // namespace

quoted_names checked_names(const table_names& given) {
    const table locks = read(given.locks, "locks");
    const table counters = read(given.fence_counters, "fence counters");
    // A name without schema may mean a table of any schema.
    const bool maybe_same_schema =
        locks.schema == counters.schema || locks.schema.empty() || counters.schema.empty();
    if (locks.name == counters.name && maybe_same_schema) {
        throw lock_error(error_code::invalid_argument,
                         "locks and fence counters need two different tables");
    }
    return {.locks = locks.quoted(),
            .fence_counters = counters.quoted(),
            .expiry_index = in_quotes(index_name(locks.name))};
}

}  // namespace syncguard::postgres
