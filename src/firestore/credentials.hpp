/// Who we are to Google: found as Google's own clients find it. Nothing in here sends anything.
///
/// No message repeats what is in a credentials file.
#pragma once

#include "http/message.hpp"

#include <syncguard/firestore.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <variant>

namespace syncguard::firestore {

/// An emulator believes everybody.
struct emulator_owner {};

/// Signs its own requests for tokens.
struct service_account {
    std::string email;
    std::string key_id;
    std::string private_key;  ///< PEM.
    std::string token_uri;
};

/// A person, by the token that a login left behind.
struct authorised_user {
    std::string client_id;
    std::string client_secret;
    std::string refresh_token;
    std::string token_uri;
};

/// The service account of the Google machine that this runs on.
struct metadata_server {
    std::string token_uri;
};

using credentials = std::variant<emulator_owner, service_account, authorised_user, metadata_server>;

/// Looks in the order that `options::credentials_file` tells. Throws `lock_error`
/// (invalid_argument) that names the file if one is there and cannot be used.
[[nodiscard]] credentials find_credentials(const options& opts);

/// Reads a file's text; `name` is for messages. Throws `lock_error` (invalid_argument).
[[nodiscard]] credentials parse_credentials(std::string_view text, const std::string& name);

/// Where tokens come from, and how they are asked for at that time. An emulator wants none; for its
/// owner, these are Google's own place and an empty request.
[[nodiscard]] net::http_location token_location(const credentials& creds);
[[nodiscard]] net::http_request token_request(const credentials& creds,
                                              std::chrono::sys_seconds now);

struct access_token {
    std::string text;
    std::chrono::seconds lifetime{};
};

/// Reads the answer. Throws `lock_error`: auth_failed if the credentials are not accepted, or as
/// the status says.
[[nodiscard]] access_token decode_token(const net::http_response& answer,
                                        const std::string& server_name);

}  // namespace syncguard::firestore
