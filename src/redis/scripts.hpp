/// The Lua script that performs all operations on the server; see scripts/ for its arguments and
/// replies.
#pragma once

#include <string_view>

namespace syncguard::redis {

struct script {
    std::string_view text;
    std::string_view
        sha1;  ///< SHA-1 of the text in hexadecimal digits, by which EVALSHA names the script.
};

[[nodiscard]] const script& lock_script() noexcept;

}  // namespace syncguard::redis
