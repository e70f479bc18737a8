/// What goes into a call of the lock script for one operation, and what comes out of it.
#pragma once

#include "redis/resp/value.hpp"

#include <syncguard/time.hpp>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace syncguard::redis {

/// What the script can do, under the same names there.
enum class script_action : std::uint8_t {
    acquire,
    acquire_plain,
    release,
    release_known,
    extend,
    extend_known,
    is_locked,
    lookup_key,
    lookup_id,
};

/// What operations have in common that go as a group.
struct script_kind {
    script_action action;
    std::optional<milliseconds> ttl{};
    std::string_view index_prefix{};  ///< The key space's.

    friend auto operator<=>(const script_kind&, const script_kind&) noexcept = default;
};

/// What one operation adds to a call of the script.
struct script_input {
    static constexpr std::size_t most_keys = 3;

    script_kind kind;
    bool acquires = false;
    std::string bytes{};  ///< Encoded: first the keys, then the arguments of its own.
    std::array<std::size_t, most_keys> ends_of_keys{};
    std::size_t key_count = 0;
    std::size_t argument_count = 0;

    [[nodiscard]] std::string_view key(std::size_t number) const noexcept {
        const std::size_t begin = end_of_keys(number);
        return std::string_view(bytes).substr(begin, ends_of_keys[number] - begin);
    }
    [[nodiscard]] std::string_view arguments() const noexcept {
        return std::string_view(bytes).substr(end_of_keys(key_count));
    }

  private:
    /// Of the first `count` ones.
    [[nodiscard]] std::size_t end_of_keys(std::size_t count) const noexcept {
        return count == 0 ? 0 : ends_of_keys[count - 1];
    }
};

/// The order in a call. Acquisitions come after all else, so that they find free what a release of
/// the same call gives up; among them those of a kind stand side by side. All else stays as it was.
[[nodiscard]] bool comes_before(const script_input& one, const script_input& other) noexcept;

/// Whether both extend the same lock.
[[nodiscard]] bool extend_same_lock(const script_input& one, const script_input& other) noexcept;

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
