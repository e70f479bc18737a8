/// The Lua script that performs all operations on the server; see scripts/ for its arguments and
/// replies.
#pragma once

#include <string_view>

namespace syncguard::redis {

struct script {
    std::string_view text;
    std::string_view sha1;  ///< Of the text, in hexadecimal digits, for EVALSHA.
};

[[nodiscard]] const script& lock_script() noexcept;

}  // namespace syncguard::redis
