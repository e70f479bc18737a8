#include "firestore/server_error.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace syncguard::firestore {

namespace {

struct known_status {
    std::string_view status;
    unsigned http_status;  ///< Used if the answer contains no status.
    error_code code;
    std::string_view advice;
    bool is_refusal = true;  ///< Whether a commit with this answer has written nothing.
};

constexpr std::array statuses{
    known_status{"ABORTED", 409, error_code::service_unavailable,
                 "others kept changing the same documents; try again"},
    known_status{"ALREADY_EXISTS", 409, error_code::service_unavailable,
                 "others kept changing the same documents; try again"},
    known_status{"UNAVAILABLE", 503, error_code::service_unavailable, "try again later", false},
    known_status{"INTERNAL", 500, error_code::service_unavailable, "try again later", false},
    known_status{"CANCELLED", 499, error_code::service_unavailable, "try again later", false},
    known_status{"DEADLINE_EXCEEDED", 504, error_code::network_timeout,
                 "the service did not finish in time; try again later", false},
    known_status{"PERMISSION_DENIED", 403, error_code::auth_failed,
                 "the account needs the role roles/datastore.user in this project"},
    known_status{"UNAUTHENTICATED", 401, error_code::auth_failed,
                 "the credentials were not accepted; see GOOGLE_APPLICATION_CREDENTIALS"},
    known_status{"RESOURCE_EXHAUSTED", 429, error_code::rate_limited,
                 "a quota is used up; try again later"},
    known_status{"FAILED_PRECONDITION", 400, error_code::invalid_argument,
                 "is the database in native mode, and does the project exist?"},
    known_status{"INVALID_ARGUMENT", 400, error_code::invalid_argument,
                 "the request was not accepted"},
    known_status{"NOT_FOUND", 404, error_code::invalid_argument,
                 "do the project and the database exist?"},
};

const known_status* find(unsigned http_status, std::string_view status) {
    const auto* const by_word = std::find_if(
        statuses.begin(), statuses.end(), [&](const auto& each) { return each.status == status; });
    if (by_word != statuses.end()) return by_word;
    const auto* const by_number =
        std::find_if(statuses.begin(), statuses.end(),
                     [&](const auto& each) { return each.http_status == http_status; });
    return by_number != statuses.end() ? by_number : nullptr;
}

/// Whether the text has the form of a status of the service, so that text from a proxy is not
/// quoted.
bool is_word(std::string_view status) {
    return !status.empty() && status.size() < 40 &&
           std::all_of(status.begin(), status.end(),
                       [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; });
}

}  // namespace

bool is_refusal(unsigned http_status, std::string_view status) noexcept {
    return std::any_of(statuses.begin(), statuses.end(), [&](const auto& each) {
        return each.is_refusal && each.status == status && each.http_status == http_status;
    });
}

bool is_conflict(std::string_view status) noexcept {
    return status == "ABORTED" || status == "ALREADY_EXISTS" || status == "FAILED_PRECONDITION" ||
           status == "NOT_FOUND";
}

lock_error to_lock_error(unsigned http_status, std::string_view status,
                         const std::string& server_name) {
    const auto* const meaning = find(http_status, status);
    std::string message = server_name + " answered " + std::to_string(http_status);
    if (is_word(status)) message.append(" ").append(status);
    if (meaning == nullptr) {
        constexpr unsigned request_timeout = 408;
        return {http_status >= 500 || http_status == request_timeout
                    ? error_code::service_unavailable
                    : error_code::internal,
                message};
    }
    return {meaning->code, message.append(": ").append(meaning->advice)};
}

}  // namespace syncguard::firestore
