/// `is_ascii`. ASCII text is the same in every normal form of Unicode.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace syncguard {

inline bool is_ascii(std::string_view text) noexcept {
    // Eight bytes at a time and no early exit: keys are short and mostly ASCII.
    constexpr std::uint64_t high_bits = 0x8080808080808080;
    std::uint64_t bits = 0;
    for (; text.size() >= sizeof bits; text.remove_prefix(sizeof bits)) {
        std::uint64_t word = 0;
        std::memcpy(&word, text.data(), sizeof word);
        bits |= word;
    }
    for (const char c : text)
        bits |= static_cast<unsigned char>(c);
    return (bits & high_bits) == 0;
}

}  // namespace syncguard
