/// What Firestore's refusals mean.
#pragma once

#include <syncguard/error.hpp>

#include <string>
#include <string_view>

namespace syncguard::firestore {

/// Whether a commit failed because a document was not, or did not stay, as it was read. Nothing was
/// written.
[[nodiscard]] bool is_conflict(unsigned http_status, std::string_view status) noexcept;

/// Whether the service gave up for reasons of its own: a commit may have taken effect.
[[nodiscard]] bool leaves_doubt(unsigned http_status) noexcept;

/// `status` is the service's word, empty where it gave none. The service's own text is not
/// repeated: it holds names of documents.
[[nodiscard]] lock_error to_lock_error(unsigned http_status, std::string_view status,
                                       const std::string& where);

}  // namespace syncguard::firestore
