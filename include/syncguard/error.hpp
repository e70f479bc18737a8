/// `lock_error`: the exception for system failures, with eight codes.
///
/// Contention, "not held" and "not found" are values, never exceptions; see result.hpp.
#pragma once

#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace syncguard {

/// Kind of failure. The set is closed: it is part of the SyncGuard contract.
enum class error_code {
    service_unavailable,  ///< The store cannot be reached or cannot serve right now.
    auth_failed,          ///< Credentials were refused, or permissions are missing.
    invalid_argument,     ///< A key, lock id, TTL, URL or stored value is not acceptable.
    rate_limited,         ///< The store asks for fewer requests.
    network_timeout,      ///< The call's deadline passed before an answer came.
    acquisition_timeout,  ///< `lock()` ran out of retries or of time.
    aborted,              ///< The caller cancelled the call.
    internal,             ///< Anything else, such as a fence counter at its maximum.
};

/// The code as the specification spells it: "ServiceUnavailable", "AuthFailed", ...
[[nodiscard]] std::string_view to_string(error_code code) noexcept;

/// Identifiers that belong to a failure. They are kept apart from the message, so that logging
/// `what()` never reveals them.
struct error_context {
    std::string key;
    std::string lock_id;
};

/// The exception type of this library.
///
/// `what()` describes the failure, the object (server or file) and possible remedies; it contains
/// no secret, no key and no lock id. Copying never throws.
class lock_error : public std::runtime_error {
  public:
    /// `cause` is the failure that led to this one. An exception that the caller is handling at
    /// that moment does not become the cause automatically.
    lock_error(error_code code, const std::string& message, error_context context = {},
               std::exception_ptr cause = nullptr);

    [[nodiscard]] error_code code() const noexcept { return code_; }

    /// The key of the operation, empty if it is not known. Sensitive: do not log it unchecked.
    [[nodiscard]] std::string_view key() const noexcept { return context_->key; }

    /// The lock id of the operation, empty if it is not known. Sensitive: with it, any client can
    /// release the lock.
    [[nodiscard]] std::string_view lock_id() const noexcept { return context_->lock_id; }

    /// The failure that led to this one, or null.
    [[nodiscard]] std::exception_ptr cause() const noexcept { return cause_; }

  private:
    error_code code_;
    std::shared_ptr<const error_context> context_;
    std::exception_ptr cause_;
};

}  // namespace syncguard
