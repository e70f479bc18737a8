/// TLS for the networked engines. It fails closed: no verification, no connection.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace syncguard::net {

struct tls_files {
    std::filesystem::path authorities;  ///< CA certificates. Empty: those of the system.
    std::filesystem::path certificate;  ///< The client's, if the server requires one.
    std::filesystem::path private_key;
};

/// A context that verifies its peer, TLS 1.2 or later. Throws `lock_error`: invalid_argument that
/// names the file if one cannot be used, internal if OpenSSL itself fails.
[[nodiscard]] boost::asio::ssl::context make_tls_context(const tls_files& files);

/// A TLS context that is made when it is first needed, so that a forked child does not use OpenSSL
/// before that.
///
/// Thread safety: none.
class lazy_tls_context {
  public:
    explicit lazy_tls_context(tls_files files) : files_(std::move(files)) {}

    [[nodiscard]] boost::asio::ssl::context& get() {
        if (!context_) context_ = make_tls_context(files_);
        return *context_;
    }

  private:
    tls_files files_;
    std::optional<boost::asio::ssl::context> context_;
};

/// Sends the host name to the server (SNI) and requires a certificate for it. Throws `lock_error`
/// (internal) if OpenSSL refuses the name.
void expect_host(SSL* session, const std::string& host);

/// The text of the reason why the peer's certificate was refused; empty if it was accepted.
[[nodiscard]] std::string certificate_problem(SSL* session);

}  // namespace syncguard::net
