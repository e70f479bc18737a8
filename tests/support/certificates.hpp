/// Certificates for tests of TLS, made afresh: good ones, and one for each way to be bad.
#pragma once

#include "support/temporary_folder.hpp"

#include <filesystem>

namespace syncguard::test {

/// PEM files.
struct certificate_files {
    std::filesystem::path certificate;
    std::filesystem::path key;
};

/// Valid for a day since an hour ago, if nothing else is said. Servers are "localhost" and
/// 127.0.0.1, if nothing else is said.
class certificates {
  public:
    /// Makes all of them, in a folder of its own.
    certificates();

    /// Whom clients and servers trust.
    [[nodiscard]] std::filesystem::path ca() const { return authority_.certificate; }
    [[nodiscard]] const certificate_files& server() const noexcept { return server_; }
    /// Ended an hour ago.
    [[nodiscard]] const certificate_files& expired_server() const noexcept { return expired_; }
    /// For "elsewhere.example" only.
    [[nodiscard]] const certificate_files& other_host() const noexcept { return other_host_; }
    /// Signed by itself and not by the CA.
    [[nodiscard]] const certificate_files& self_signed() const noexcept { return self_signed_; }
    /// For the user of a server that asks for one.
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
