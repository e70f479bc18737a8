/// Fencing tokens: a number that grows with every grant of a key.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

namespace syncguard {

/// A fencing token: exactly 15 decimal digits, zero-padded, so that the order of the text is the
/// order of the grants. Hand it to the resource that the lock protects; the resource refuses a
/// token that is smaller than one it has seen.
///
/// Compare tokens with `<`, `==`, `>`; store and send them as text. There is no way to a number,
/// because nothing correct needs one.
class fence {
  public:
    static constexpr std::size_t length = 15;

    /// The last counter value that is handed out. Beyond it an acquisition fails with `Internal`.
    static constexpr std::uint64_t max_counter = 900'000'000'000'000;
    /// Beyond this value every acquisition warns.
    static constexpr std::uint64_t warn_counter = 90'000'000'000'000;

    /// Fifteen zeros: smaller than every token that was ever granted.
    constexpr fence() noexcept { digits_.fill('0'); }

    /// Formats a store's counter. `counter` must have at most 15 digits.
    [[nodiscard]] static fence from_counter(std::uint64_t counter) noexcept;

    /// Reads a token; nothing unless `text` is exactly 15 digits.
    [[nodiscard]] static std::optional<fence> parse(std::string_view text) noexcept;

    [[nodiscard]] constexpr std::string_view str() const noexcept {
        return {digits_.data(), digits_.size()};
    }
    [[nodiscard]] std::string to_string() const { return std::string(str()); }

    friend constexpr auto operator<=>(const fence&, const fence&) noexcept = default;
    friend constexpr bool operator==(const fence&, const fence&) noexcept = default;

  private:
    std::array<char, length> digits_{};
};

std::ostream& operator<<(std::ostream& out, const fence& token);

}  // namespace syncguard
