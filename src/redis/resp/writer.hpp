/// RESP encoding of commands: each is an array of bulk strings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace syncguard::redis::resp {

/// Begins a command of `parts` bulk strings, its name included; they are appended next.
void append_command_header(std::string& out, std::size_t parts);

void append_bulk(std::string& out, std::string_view text);

/// Appends one string, the concatenation of `parts`.
void append_bulk(std::string& out, std::initializer_list<std::string_view> parts);

/// Appends the number in decimal digits, as Redis expects numbers.
void append_bulk(std::string& out, std::int64_t number);

}  // namespace syncguard::redis::resp
