/// Google credentials, found as Google's client libraries find them. No I/O except reading files.
///
/// No message contains text from a credentials file.
#pragma once

#include "http/message.hpp"

#include <syncguard/firestore.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <variant>

namespace syncguard::firestore {

/// An emulator requires no credentials.
struct emulator_owner {};

/// A service account, which signs its requests for tokens.
struct service_account {
    std::string email;
    std::string key_id;
    std::string private_key;  ///< PEM.
    std::string token_uri;
};

/// A user, by the refresh token that a login stored.
struct authorised_user {
    std::string client_id;
    std::string client_secret;
    std::string refresh_token;
    std::string token_uri;
};

/// The service account of the Google Cloud machine on which this process runs.
struct metadata_server {
    std::string token_uri;
};

using credentials = std::variant<emulator_owner, service_account, authorised_user, metadata_server>;

/// Searches in the order documented at `options::credentials_file`. Throws `lock_error`
/// (invalid_argument) that names the file if a file exists but cannot be used.
[[nodiscard]] credentials find_credentials(const options& opts);

/// Reads a file's text; `name` is for messages. Throws `lock_error` (invalid_argument).
[[nodiscard]] credentials parse_credentials(std::string_view text, const std::string& name);

/// The address of the token server, and the request for a token at `now`. An emulator needs no
/// token; for `emulator_owner` these are Google's address and an empty request.
[[nodiscard]] net::http_location token_location(const credentials& creds);
[[nodiscard]] net::http_request token_request(const credentials& creds,
                                              std::chrono::sys_seconds now);

struct access_token {
    std::string text;
    std::chrono::seconds lifetime{};
};

/// Decodes the answer. Throws `lock_error`: auth_failed if the credentials are refused, else
/// according to the status.
[[nodiscard]] access_token decode_token(const net::http_response& answer,
                                        const std::string& server_name);

}  // namespace syncguard::firestore
