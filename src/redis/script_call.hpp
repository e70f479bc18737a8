/// What goes into a call of the lock script for one operation, and what comes out of it.
#pragma once

#include "resp_value.hpp"

#include <syncguard/time.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace syncguard::redis {

/// What one operation adds to a call of the script, encoded.
struct script_input {
    std::string bytes;  ///< First its kind, then the keys, then the arguments of its own.
    std::size_t end_of_kind = 0;
    std::size_t end_of_keys = 0;
    std::size_t key_count = 0;
    std::size_t argument_count = 0;  ///< Of its own.
    bool acquires = false;

    /// Its name, and what it may share with others: those with the same go as a group.
    [[nodiscard]] std::string_view kind() const noexcept {
        return std::string_view(bytes).substr(0, end_of_kind);
    }
    [[nodiscard]] std::string_view keys() const noexcept {
        return std::string_view(bytes).substr(end_of_kind, end_of_keys - end_of_kind);
    }
    [[nodiscard]] std::string_view arguments() const noexcept {
        return std::string_view(bytes).substr(end_of_keys);
    }
};

/// The order in a call. Acquisitions come after all else, so that they find free what a release of
/// the same call gives up; among them those of a kind stand side by side. All else stays as it was.
[[nodiscard]] bool comes_before(const script_input& one, const script_input& other) noexcept;

/// Appends a call of the script that performs these. Neighbours of the same kind make a group.
/// Where the server may not know the script, its text goes along.
void append_call(std::string& out, std::span<const script_input* const> operations,
                 bool script_is_known);

/// What the script said about one operation.
struct script_reply {
    const resp::value& value;
    unix_time server_time;
};

}  // namespace syncguard::redis
