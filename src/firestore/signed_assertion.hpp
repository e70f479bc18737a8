/// Signs token requests of a service account: RS256, with OpenSSL.
#pragma once

#include "firestore/credentials.hpp"

#include <chrono>
#include <string>

namespace syncguard::firestore {

/// A JSON Web Token that asks for an access token to Firestore, valid for an hour from `now`.
/// Throws `lock_error` (internal) if OpenSSL fails.
[[nodiscard]] std::string signed_assertion(const service_account& account,
                                           std::chrono::sys_seconds now);

/// Throws `lock_error` (invalid_argument) that names the file if the private key is not an RSA key.
void check_private_key(const service_account& account, const std::string& file);

}  // namespace syncguard::firestore
