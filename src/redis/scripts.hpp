/// The script that performs all operations in the server; see scripts/ for what it takes and says.
#pragma once

#include <string_view>

namespace syncguard::redis {

struct script {
    std::string_view text;
    std::string_view sha1;  ///< Of the text, in hexadecimal digits: its name in the server.
};

[[nodiscard]] const script& lock_script() noexcept;

}  // namespace syncguard::redis
