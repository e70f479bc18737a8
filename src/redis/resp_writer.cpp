#include "resp_writer.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace syncguard::redis::resp {

namespace {

constexpr std::string_view end_of_line = "\r\n";

/// Room for the digits of a number, for a sign, and for the digit that digits10 does not count.
template <class Number>
constexpr std::size_t longest = std::numeric_limits<Number>::digits10 + 2;

/// The line that tells how long something is, without its end.
class length_line {
  public:
    length_line(char type, std::size_t length) {
        text_[0] = type;
        end_ = std::to_chars(text_.data() + 1, text_.data() + text_.size(), length).ptr;
    }
    [[nodiscard]] std::string_view text() const noexcept { return {text_.data(), end_}; }

  private:
    std::array<char, 1 + longest<std::size_t>> text_;  // NOLINT(*-member-init): written at once
    const char* end_;
};

}  // namespace

void append_command_header(std::string& out, std::size_t parts) {
    out.append(length_line('*', parts).text()).append(end_of_line);
}

void append_bulk(std::string& out, std::string_view text) {
    append_bulk(out, {text});
}

void append_bulk(std::string& out, std::initializer_list<std::string_view> parts) {
    std::size_t size = 0;
    for (const auto& each : parts)
        size += each.size();
    const length_line line('$', size);
    const std::size_t before = out.size();
    out.resize(before + line.text().size() + size + 2 * end_of_line.size());
    char* end = out.data() + before;
    const auto add = [&](std::string_view text) { end = std::copy(text.begin(), text.end(), end); };
    add(line.text());
    add(end_of_line);
    for (const auto& each : parts)
        add(each);
    add(end_of_line);
}

void append_bulk(std::string& out, std::int64_t number) {
    std::array<char, longest<std::int64_t>> digits;  // NOLINT(*-member-init): written at once
    const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    append_bulk(out, std::string_view(digits.data(), end));
}

}  // namespace syncguard::redis::resp
