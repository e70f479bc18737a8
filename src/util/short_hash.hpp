/// `short_hash`: replaces a key that is not acceptable to a store.
#pragma once

#include <string>
#include <string_view>

namespace syncguard {

/// The first 16 bytes of the SHA-256 of `text`, as 22 base64url characters.
[[nodiscard]] std::string short_hash(std::string_view text);

}  // namespace syncguard
