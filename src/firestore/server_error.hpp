/// Maps Firestore's errors to `lock_error`.
#pragma once

#include <syncguard/error.hpp>

#include <string>
#include <string_view>

namespace syncguard::firestore {

/// Whether the service refused a commit: nothing was written. True only for a status that Firestore
/// uses for refusals, with the HTTP status that belongs to it. Any other answer may come from a
/// proxy or from a server that timed out: the commit may have been executed, or may still be.
[[nodiscard]] bool is_refusal(unsigned http_status, std::string_view status) noexcept;

/// Whether a refusal means that a document has changed since it was read.
[[nodiscard]] bool is_conflict(std::string_view status) noexcept;

/// `status` is the service's status, empty if there is none. The service's text is not quoted,
/// because it contains names of documents.
[[nodiscard]] lock_error to_lock_error(unsigned http_status, std::string_view status,
                                       const std::string& server_name);

}  // namespace syncguard::firestore
