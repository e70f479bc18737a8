/// Newly made certificates for tests of TLS: valid ones, and one for each kind of invalid
/// certificate.
#pragma once

#include "support/temporary_folder.hpp"

#include <filesystem>

namespace syncguard::test {

/// PEM files.
struct certificate_files {
    std::filesystem::path certificate;
    std::filesystem::path key;
};

/// Unless stated otherwise, certificates are valid from an hour ago for a day, and server
/// certificates are for "localhost" and 127.0.0.1.
class certificates {
  public:
    /// Makes all certificates, in a new folder.
    certificates();

    /// The CA that clients and servers trust.
    [[nodiscard]] std::filesystem::path ca() const { return authority_.certificate; }
    [[nodiscard]] const certificate_files& server() const noexcept { return server_; }
    /// Expired an hour ago.
    [[nodiscard]] const certificate_files& expired_server() const noexcept { return expired_; }
    /// For "elsewhere.example" only.
    [[nodiscard]] const certificate_files& other_host() const noexcept { return other_host_; }
    /// Not signed by the CA.
    [[nodiscard]] const certificate_files& self_signed() const noexcept { return self_signed_; }
    /// For the client of a server that requests client certificates.
    [[nodiscard]] const certificate_files& client() const noexcept { return client_; }

  private:
    temporary_folder folder_;
    certificate_files authority_;
    certificate_files server_;
    certificate_files expired_;
    certificate_files other_host_;
    certificate_files self_signed_;
    certificate_files client_;
};

}  // namespace syncguard::test
