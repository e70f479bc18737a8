/// TLS for the networked engines: one way to set it up, which fails closed.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace syncguard::net {

struct tls_files {
    std::filesystem::path authorities;  ///< Empty: those of the system.
    std::filesystem::path certificate;  ///< Our own, where the server wants one.
    std::filesystem::path private_key;
};

/// A context that verifies its peer, TLS 1.2 or later. Throws `lock_error`: invalid_argument that
/// names the file if one cannot be used, internal if OpenSSL itself fails.
[[nodiscard]] boost::asio::ssl::context make_tls_context(const tls_files& files);

/// The same, made when it is needed first: in a forked child OpenSSL is left alone until then.
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

/// Names the host to the server and demands a certificate for it. Throws `lock_error` (internal) if
/// OpenSSL cannot.
void expect_host(SSL* session, const std::string& host);

/// Why the peer's certificate was refused, in words; empty if it was not.
[[nodiscard]] std::string certificate_problem(SSL* session);

}  // namespace syncguard::net
