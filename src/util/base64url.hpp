/// Base64 for URLs (RFC 4648 section 5), without padding.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace syncguard {

/// Encodes 16 bytes, the only size in the lock formats, as 22 characters.
[[nodiscard]] std::array<char, 22> base64url(std::span<const std::uint8_t, 16> bytes) noexcept;

/// Encodes any number of bytes.
[[nodiscard]] std::string base64url_text(std::string_view bytes);

/// Whether `c` is in the alphabet.
[[nodiscard]] constexpr bool is_base64url(char c) noexcept {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

}  // namespace syncguard
