/// Commands to a Redis server, in the bytes of its protocol: an array of bulk strings each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace syncguard::redis::resp {

/// Begins a command of `parts` bulk strings, its name included; they are appended next.
void append_command_header(std::string& out, std::size_t parts);

void append_bulk(std::string& out, std::string_view text);

/// One string, made of two.
void append_bulk(std::string& out, std::string_view beginning, std::string_view end);

/// The number in decimal digits, which is how Redis takes numbers.
void append_bulk(std::string& out, std::int64_t number);

}  // namespace syncguard::redis::resp
