#include "postgres/table_names.hpp"

#include <syncguard/error.hpp>
#include <syncguard/key.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

namespace syncguard::postgres {

namespace {

/// The server truncates longer names, and two of them could then be the same.
constexpr std::size_t max_identifier_length = 63;

bool is_identifier(std::string_view text) {
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
    const auto is_allowed = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); };
    return !text.empty() && text.size() <= max_identifier_length && is_letter(text.front()) &&
           std::all_of(text.begin(), text.end(), is_allowed);
}

std::string in_quotes(std::string_view name) {
    std::string quoted("\"");
    return quoted.append(name).append("\"");
}

table_name read(std::string text, const char* purpose) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    const auto dot = text.find('.');
    table_name read;
    if (dot != std::string::npos) read.schema = text.substr(0, dot);
    read.name = dot == std::string::npos ? text : text.substr(dot + 1);
    if (!is_identifier(read.name) || (dot != std::string::npos && !is_identifier(read.schema))) {
        throw lock_error(error_code::invalid_argument,
                         std::string("the name of the table for ") + purpose +
                             " must be an SQL identifier: a letter or '_', then letters, digits "
                             "and '_', at most 63 in all, with or without a schema before it");
    }
    return read;
}

std::string index_name(const std::string& table_name) {
    constexpr std::string_view ending = "_expires_at_ms";
    std::string name = table_name;
    if (name.size() + ending.size() > max_identifier_length) {
        // If only truncated, two names could become the same.
        constexpr std::size_t kept = 24;
        name.resize(kept);
        name.append("_").append(hash_key(table_name));
    }
    return name.append(ending);
}

constexpr std::string_view placeholder_of_locks = "{locks}";
constexpr std::string_view placeholder_of_counters = "{fence_counters}";

void replace_all(std::string& text, std::string_view old_part, const std::string& new_part) {
    for (auto at = text.find(old_part); at != std::string::npos;
         at = text.find(old_part, at + new_part.size())) {
        text.replace(at, old_part.size(), new_part);
    }
}

}  // namespace

std::string table_name::quoted() const {
    if (schema.empty()) return in_quotes(name);
    return in_quotes(schema).append(".").append(in_quotes(name));
}

table_pair checked_tables(const table_names& given) {
    table_name locks = read(given.locks, "locks");
    table_name counters = read(given.fence_counters, "fence counters");
    // A name without schema may refer to a table of any schema.
    const bool maybe_same_schema =
        locks.schema == counters.schema || locks.schema.empty() || counters.schema.empty();
    if (locks.name == counters.name && maybe_same_schema) {
        throw lock_error(error_code::invalid_argument,
                         "locks and fence counters need two different tables");
    }
    return {.locks = std::move(locks), .fence_counters = std::move(counters)};
}

quoted_names checked_names(const table_names& given) {
    const auto tables = checked_tables(given);
    return {.locks = tables.locks.quoted(),
            .fence_counters = tables.fence_counters.quoted(),
            .expiry_index = in_quotes(index_name(tables.locks.name))};
}

quoted_names placeholders(const table_pair& tables) {
    return {.locks = std::string(placeholder_of_locks),
            .fence_counters = std::string(placeholder_of_counters),
            .expiry_index = in_quotes(index_name(tables.locks.name))};
}

std::string with_tables(std::string text, const table_pair& tables) {
    replace_all(text, placeholder_of_locks, tables.locks.quoted());
    replace_all(text, placeholder_of_counters, tables.fence_counters.quoted());
    return text;
}

}  // namespace syncguard::postgres
