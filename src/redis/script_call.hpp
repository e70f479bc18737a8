/// Arguments and reply of one operation in a call of the lock script.
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

/// The actions of the script; `name_of` has their names there.
enum class script_action : std::uint8_t {
    acquire,
    acquire_raw_key,
    release,
    release_by_key,
    extend,
    extend_by_key,
    is_locked,
    lookup_key,
    lookup_id,
};

/// The properties that all operations of a group share.
struct batch_key {
    script_action action;
    std::optional<milliseconds> ttl{};
    std::string_view index_prefix{};  ///< The key space's.

    friend auto operator<=>(const batch_key&, const batch_key&) noexcept = default;
};

/// The keys and arguments that one operation adds to a call of the script.
struct script_args {
    static constexpr std::size_t max_keys = 3;

    batch_key kind;
    bool acquires = false;
    std::string bytes{};  ///< Encoded: first the keys, then the operation's own arguments.
    std::array<std::size_t, max_keys> ends_of_keys{};
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
    /// The end of the first `count` keys in `bytes`.
    [[nodiscard]] std::size_t end_of_keys(std::size_t count) const noexcept {
        return count == 0 ? 0 : ends_of_keys[count - 1];
    }
};

/// The order in a batch. Acquisitions come last, so that keys released by the same batch are free
/// for them; acquisitions of the same kind are adjacent. All other operations keep their order.
[[nodiscard]] bool batch_order(const script_args& one, const script_args& other) noexcept;

/// Whether both extend the same lock.
[[nodiscard]] bool extend_same_lock(const script_args& one, const script_args& other) noexcept;

/// Appends a call of the script that performs these operations. Adjacent operations of the same
/// kind form a group. If the server may not know the script, its text is sent too.
void append_evalsha(std::string& out, std::span<const script_args* const> operations,
                    bool script_is_known);

/// The script's reply to one operation.
struct script_reply {
    const resp::value& value;
    unix_time server_time;
};

}  // namespace syncguard::redis
