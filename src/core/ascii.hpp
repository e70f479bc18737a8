/// Texts that are the same in every normal form of Unicode.
#pragma once

#include <string_view>

namespace syncguard {

inline bool is_ascii(std::string_view text) noexcept {
    // All of it without a look in between is faster than to stop at the first that is not.
    unsigned bits = 0;
    for (const char c : text)
        bits |= static_cast<unsigned char>(c);
    return bits < 0x80;
}

}  // namespace syncguard
