/// What a Redis server's error replies mean to a caller.
#pragma once

#include <syncguard/error.hpp>

#include <string>
#include <string_view>

namespace syncguard::redis {

/// The code for an error reply, by its first word and, for the general `ERR`, by its text.
[[nodiscard]] error_code code_of(std::string_view reply) noexcept;

/// Whether it is certain that nothing was locked: the server refused the command as a whole, or the
/// script gave up before it wrote a lock. Of any other error reply that cannot be said.
[[nodiscard]] bool is_refusal(std::string_view reply) noexcept;

/// Whether the refusal can concern a single key among those of a command.
[[nodiscard]] bool may_concern_one_key(std::string_view reply) noexcept;

/// Whether this server cannot write now, while another may have taken over its host name.
[[nodiscard]] bool may_have_failed_over(std::string_view reply) noexcept;

/// An error for the person who reads it: what the server at `where` said and what to try. With
/// `quote` false only the first word of the reply is repeated: an answer to credentials could
/// repeat them.
[[nodiscard]] lock_error to_lock_error(std::string_view reply, const std::string& where,
                                       bool quote = true);

}  // namespace syncguard::redis
