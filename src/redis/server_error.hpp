/// Maps the error replies of a Redis server to `lock_error`.
#pragma once

#include <syncguard/error.hpp>

#include <string>
#include <string_view>

namespace syncguard::redis {

/// The code for an error reply, by its first word and, for the general `ERR`, by its text.
[[nodiscard]] error_code code_of(std::string_view reply) noexcept;

/// Whether it is certain that nothing was locked: the server refused the command as a whole, or the
/// script failed before it wrote a lock. After any other error reply the key may be locked.
[[nodiscard]] bool had_no_effect(std::string_view reply) noexcept;

/// Whether the error may be caused by a single operation of a batch.
[[nodiscard]] bool may_be_one_operation(std::string_view reply) noexcept;

/// Whether this server cannot write now, and its host name may refer to another server after a
/// failover.
[[nodiscard]] bool may_have_failed_over(std::string_view reply) noexcept;

/// An error with the server's reply and advice. With `quote` false only the first word of the reply
/// is quoted, because a reply to credentials could repeat them.
[[nodiscard]] lock_error to_lock_error(std::string_view reply, const std::string& server_name,
                                       bool quote = true);

}  // namespace syncguard::redis
