#include "util/ascii.hpp"
#include "util/short_hash.hpp"

#include <syncguard/error.hpp>
#include <syncguard/key.hpp>

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace syncguard {

namespace {

[[noreturn]] void refuse(const std::string& message) {
    throw lock_error(error_code::invalid_argument, message);
}

std::string compose(std::string_view text) {
    if (is_ascii(text)) return std::string(text);

    utf8proc_uint8_t* mapped = nullptr;
    const utf8proc_ssize_t length =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                     static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                     static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
    if (length == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
    if (length < 0) refuse("the text is not valid UTF-8");
    return {reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(length)};
}

/// U+11A7 composes with nothing before or after it, but utf8proc (2.8) drops it behind a Hangul
/// syllable. So the text before and the text after it are normalised separately.
std::string to_nfc(std::string_view text) {
    constexpr std::string_view inert = "\u11A7";
    std::string normal;
    while (true) {
        const std::size_t end = text.find(inert);
        normal += compose(text.substr(0, end));
        if (end == std::string_view::npos) return normal;
        normal += inert;
        text.remove_prefix(end + inert.size());
    }
}

/// Calls `visit` with the UTF-16 code units of valid UTF-8.
template <class Visit>
void for_each_utf16_unit(std::string_view text, Visit visit) {
    const auto* next = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
    auto left = static_cast<utf8proc_ssize_t>(text.size());
    while (left > 0) {
        utf8proc_int32_t code_point = 0;
        const utf8proc_ssize_t length = utf8proc_iterate(next, left, &code_point);
        if (length <= 0) refuse("the text is not valid UTF-8");
        next += length;
        left -= length;
        auto unit = static_cast<std::uint32_t>(code_point);
        if (unit >= 0x10000) {
            unit -= 0x10000;
            visit(0xD800 + (unit >> 10U));
            visit(0xDC00 + (unit & 0x3FFU));
        } else {
            visit(unit);
        }
    }
}

std::string join(std::string_view prefix, std::string_view key) {
    std::string full;
    full.reserve(prefix.size() + 1 + key.size());
    if (!prefix.empty()) full.append(prefix).push_back(':');
    return full.append(key);
}

std::string storage_key_of_normal(std::string_view prefix, std::string_view normal,
                                  storage_key_budget budget) {
    while (prefix.ends_with(':'))
        prefix.remove_suffix(1);

    const std::size_t separator = prefix.empty() ? 0 : 1;
    if (prefix.size() + separator + budget.reserve_bytes > budget.limit_bytes) {
        refuse("the key prefix has " + std::to_string(prefix.size()) +
               " bytes and leaves no room for a key; use a shorter prefix");
    }

    std::string full = join(prefix, normal);
    if (full.size() + budget.reserve_bytes <= budget.limit_bytes) return full;

    std::string hashed = join(prefix, short_hash(full));
    if (hashed.size() + budget.reserve_bytes > budget.limit_bytes) {
        refuse("the key prefix has " + std::to_string(prefix.size()) +
               " bytes and leaves no room even for a hashed key; use a shorter prefix");
    }
    return hashed;
}

}  // namespace

std::string normalize_and_validate_key(std::string_view key) {
    if (key.empty()) refuse("the key is empty");
    // NFC never shrinks a text to less than a third. So this refuses no valid key, and avoids the
    // normalisation of very long texts.
    if (key.size() > 4 * max_key_length_bytes) {
        refuse("the key has " + std::to_string(key.size()) + " bytes; at most " +
               std::to_string(max_key_length_bytes) + " are allowed");
    }
    std::string normal = to_nfc(key);
    if (normal.size() > max_key_length_bytes) {
        refuse("the key has " + std::to_string(normal.size()) +
               " bytes in its normal form; at most " + std::to_string(max_key_length_bytes) +
               " are allowed");
    }
    return normal;
}

std::string hash_key(std::string_view text) {
    std::uint32_t h1 = 0;
    std::uint32_t h2 = 0;
    std::uint32_t h3 = 0;
    for_each_utf16_unit(to_nfc(text), [&](std::uint32_t unit) {
        h1 = h1 * 31 + unit;
        h2 = h2 * 127 + unit * 3;
        h3 = h3 * 2047 + unit * 7;
    });

    std::string hex;
    hex.reserve(24);
    for (const std::uint32_t part : {h1, h2, h3}) {
        for (int shift = 28; shift >= 0; shift -= 4) {
            hex.push_back("0123456789abcdef"[part >> static_cast<unsigned>(shift) & 15U]);
        }
    }
    return hex;
}

std::string make_storage_key(std::string_view prefix, std::string_view key,
                             storage_key_budget budget) {
    if (key.empty()) refuse("the key is empty");
    if (is_ascii(key)) return storage_key_of_normal(prefix, key, budget);
    return storage_key_of_normal(prefix, to_nfc(key), budget);
}

std::string make_fence_key(std::string_view prefix, std::string_view lock_storage_key,
                           storage_key_budget budget) {
    return make_storage_key(prefix, "fence:" + std::string(lock_storage_key), budget);
}

}  // namespace syncguard
