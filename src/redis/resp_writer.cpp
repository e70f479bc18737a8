#include "resp_writer.hpp"

#include <array>
#include <charconv>
#include <limits>

namespace syncguard::redis::resp {

namespace {

template <class Number>
class decimal {
  public:
    explicit decimal(Number number) noexcept
        : end_(std::to_chars(digits_.data(), digits_.data() + digits_.size(), number).ptr) {}

    [[nodiscard]] std::string_view text() const noexcept { return {digits_.data(), end_}; }

  private:
    // Room for a sign, and for the digit that digits10 does not count.
    std::array<char, std::numeric_limits<Number>::digits10 + 2> digits_{};
    const char* end_;
};

void append_header(std::string& out, char type, std::size_t count) {
    out.push_back(type);
    out.append(decimal(count).text());
    out.append("\r\n");
}

}  // namespace

void append_command_header(std::string& out, std::size_t parts) {
    append_header(out, '*', parts);
}

void append_bulk(std::string& out, std::string_view text) {
    append_header(out, '$', text.size());
    out.append(text);
    out.append("\r\n");
}

void append_bulk(std::string& out, std::int64_t number) {
    append_bulk(out, decimal(number).text());
}

}  // namespace syncguard::redis::resp
