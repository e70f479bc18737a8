#include "resp_writer.hpp"

#include <array>
#include <charconv>
#include <limits>

namespace syncguard::redis::resp {

namespace {

/// Room for the digits of a number, for a sign, and for the digit that digits10 does not count.
template <class Number>
constexpr std::size_t longest = std::numeric_limits<Number>::digits10 + 2;

/// In one piece: a command has many of these.
void append_header(std::string& out, char type, std::size_t count) {
    std::array<char, 1 + longest<std::size_t> + 2> line;  // NOLINT(*-member-init): written at once
    line[0] = type;
    char* end = std::to_chars(line.data() + 1, line.data() + line.size(), count).ptr;
    *end++ = '\r';
    *end++ = '\n';
    out.append(line.data(), end);
}

}  // namespace

void append_command_header(std::string& out, std::size_t parts) {
    append_header(out, '*', parts);
}

void append_bulk(std::string& out, std::string_view text) {
    append_bulk(out, {text});
}

void append_bulk(std::string& out, std::initializer_list<std::string_view> parts) {
    std::size_t size = 0;
    for (const auto& each : parts)
        size += each.size();
    append_header(out, '$', size);
    for (const auto& each : parts)
        out.append(each);
    out.append("\r\n", 2);
}

void append_bulk(std::string& out, std::int64_t number) {
    std::array<char, longest<std::int64_t>> digits;  // NOLINT(*-member-init): written at once
    const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    append_bulk(out, std::string_view(digits.data(), end));
}

}  // namespace syncguard::redis::resp
