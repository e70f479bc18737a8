/// Fencing tokens: numbers that grow with every grant of a key.
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
/// order of the grants. Pass it to the resource that the lock protects; the resource refuses a
/// token that is smaller than one it has seen.
///
/// Compare tokens with `<`, `==`, `>`; store and send them as text. There is no conversion to a
/// number, because no correct use needs one.
class fence {
  public:
    static constexpr std::size_t length = 15;

    /// The greatest counter value that is granted. Beyond it an acquisition fails with `Internal`.
    static constexpr std::uint64_t max_counter = 900'000'000'000'000;
    /// Beyond this value each acquisition causes a warning.
    static constexpr std::uint64_t warn_counter = 90'000'000'000'000;

    /// Fifteen zeros: smaller than every token that was ever granted.
    constexpr fence() noexcept { digits_.fill('0'); }

    /// Makes a token of a fence counter, which must have at most 15 digits.
    [[nodiscard]] static fence from_counter(std::uint64_t counter) noexcept;

    /// Parses a token; `nullopt` unless `text` is exactly 15 digits.
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
