#include "util/short_hash.hpp"

#include "util/base64url.hpp"

#include <openssl/sha.h>

#include <array>
#include <cstdint>
#include <span>

namespace syncguard {

std::string short_hash(std::string_view text) {
    std::array<std::uint8_t, SHA256_DIGEST_LENGTH> digest{};
    SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
    const auto encoded = base64url(std::span(digest).first<16>());
    return {encoded.data(), encoded.size()};
}

}  // namespace syncguard
