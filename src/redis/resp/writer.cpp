#include "redis/resp/writer.hpp"

#include <array>
#include <charconv>
#include <limits>

namespace syncguard::redis::resp {

namespace {

constexpr std::string_view end_of_line = "\r\n";

/// Space for the digits of a number, a sign, and the digit that digits10 does not count.
template <class Number>
constexpr std::size_t longest = std::numeric_limits<Number>::digits10 + 2;

}  // namespace

void append_command_header(std::string& out, std::size_t parts) {
    out.append("*").append(std::to_string(parts)).append(end_of_line);
}

void append_bulk(std::string& out, std::string_view text) {
    append_bulk(out, {text});
}

void append_bulk(std::string& out, std::initializer_list<std::string_view> parts) {
    std::size_t size = 0;
    for (const auto& each : parts)
        size += each.size();
    const std::size_t before = out.size();
    out.resize(before + 1 + longest<std::size_t> + size + 2 * end_of_line.size());
    char* end = out.data() + before;
    const auto add_end_of_line = [&] {
        for (const char c : end_of_line)
            *end++ = c;
    };
    *end++ = '$';
    end = std::to_chars(end, end + longest<std::size_t>, size).ptr;
    add_end_of_line();
    for (const auto& each : parts)
        end += each.copy(end, each.size());
    add_end_of_line();
    out.resize(static_cast<std::size_t>(end - out.data()));
}

void append_bulk(std::string& out, std::int64_t number) {
    std::array<char, longest<std::int64_t>> digits;  // NOLINT(*-member-init): written at once
    const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    append_bulk(out, std::string_view(digits.data(), end));
}

}  // namespace syncguard::redis::resp
