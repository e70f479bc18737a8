/// What goes into a call of the lock script for one operation, and what comes out of it.
#pragma once

#include "resp_value.hpp"

#include <syncguard/time.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace syncguard::redis {

/// What one operation adds to a call of the script, encoded.
struct script_input {
    std::string bytes;  ///< First the keys, then the arguments.
    std::size_t key_bytes = 0;
    std::size_t key_count = 0;
    std::size_t argument_count = 0;

    [[nodiscard]] std::string_view keys() const noexcept {
        return std::string_view(bytes).substr(0, key_bytes);
    }
    [[nodiscard]] std::string_view arguments() const noexcept {
        return std::string_view(bytes).substr(key_bytes);
    }
};

/// What the script said about one operation.
struct script_reply {
    const resp::value& value;
    unix_time server_time;
};

}  // namespace syncguard::redis
