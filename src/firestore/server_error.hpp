/// What Firestore's refusals mean.
#pragma once

#include <syncguard/error.hpp>

#include <string>
#include <string_view>

namespace syncguard::firestore {

/// Whether the service refused a commit: nothing was written. Only a word that Firestore uses for a
/// refusal, with the HTTP status that belongs to it, counts. Any other answer may come from a proxy
/// or from a server that gave up waiting: the commit may have taken effect, or may yet.
[[nodiscard]] bool is_refusal(unsigned http_status, std::string_view status) noexcept;

/// Whether a refusal means that a document was not, or did not stay, as it was read.
[[nodiscard]] bool is_conflict(std::string_view status) noexcept;

/// `status` is the service's word, empty where it gave none. The service's own text is not
/// repeated: it holds names of documents.
[[nodiscard]] lock_error to_lock_error(unsigned http_status, std::string_view status,
                                       const std::string& server_name);

}  // namespace syncguard::firestore
