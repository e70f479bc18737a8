#include "util/base64url.hpp"

#include <string_view>

namespace syncguard {

namespace {
constexpr std::string_view alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
}

std::array<char, 22> base64url(std::span<const std::uint8_t, 16> bytes) noexcept {
    std::array<char, 22> text{};
    std::size_t out = 0;
    for (std::size_t in = 0; in < 15; in += 3) {
        const std::uint32_t group = std::uint32_t{bytes[in]} << 16U |
                                    std::uint32_t{bytes[in + 1]} << 8U |
                                    std::uint32_t{bytes[in + 2]};
        text[out++] = alphabet[group >> 18U];
        text[out++] = alphabet[group >> 12U & 63U];
        text[out++] = alphabet[group >> 6U & 63U];
        text[out++] = alphabet[group & 63U];
    }
    text[out++] = alphabet[bytes[15] >> 2U];
    text[out] = alphabet[(bytes[15] & 3U) << 4U];
    return text;
}

std::string base64url_text(std::string_view bytes) {
    std::string text;
    text.reserve(bytes.size() * 4 / 3 + 2);
    std::uint32_t group = 0;
    unsigned bits = 0;
    for (const char byte : bytes) {
        group = group << 8U | static_cast<unsigned char>(byte);
        for (bits += 8; bits >= 6; bits -= 6)
            text.push_back(alphabet[group >> (bits - 6) & 63U]);
    }
    if (bits > 0) text.push_back(alphabet[group << (6 - bits) & 63U]);
    return text;
}

}  // namespace syncguard
