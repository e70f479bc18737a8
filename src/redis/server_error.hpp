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
[[nodiscard]] bool had_no_effect(std::string_view reply) noexcept;

/// Whether the error may be about a single operation of a batch.
[[nodiscard]] bool may_be_one_operation(std::string_view reply) noexcept;

/// Whether this server cannot write now, while another may have taken over its host name.
[[nodiscard]] bool may_have_failed_over(std::string_view reply) noexcept;

/// An error for the person who reads it: what the server said and what to try. With `quote` false
/// only the first word of the reply is repeated: an answer to credentials could repeat them.
[[nodiscard]] lock_error to_lock_error(std::string_view reply, const std::string& server_name,
                                       bool quote = true);

}  // namespace syncguard::redis
