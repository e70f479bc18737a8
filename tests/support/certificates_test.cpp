#include "support/certificates.hpp"

#include "support/redis_server.hpp"

#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <csignal>
#include <cstdint>
#include <memory>
#include <string>

namespace syncguard::test {
namespace {

/// The result of a TLS handshake between a client that trusts the CA and expects `host`, and a
/// server with a certificate.
struct meeting {
    long verification = X509_V_ERR_UNSPECIFIED;
    std::string answer;
};

struct client_context {
    explicit client_context(const certificates& files) {
        SSL_CTX_load_verify_file(context.get(), files.ca().c_str());
        SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    }
    void show(const certificate_files& own) const {
        SSL_CTX_use_certificate_file(context.get(), own.certificate.c_str(), SSL_FILETYPE_PEM);
        SSL_CTX_use_PrivateKey_file(context.get(), own.key.c_str(), SSL_FILETYPE_PEM);
    }
    std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context{SSL_CTX_new(TLS_client_method()),
                                                              &SSL_CTX_free};
};

meeting meet(const client_context& client, std::uint16_t port, const char* host) {
    const owned_fd socket = connect_to_loopback(port);
    const std::unique_ptr<SSL, decltype(&SSL_free)> tls(SSL_new(client.context.get()), &SSL_free);
    X509_VERIFY_PARAM* const expected = SSL_get0_param(tls.get());
    if (X509_VERIFY_PARAM_set1_ip_asc(expected, host) != 1) SSL_set1_host(tls.get(), host);
    SSL_set_fd(tls.get(), socket.get());
    meeting result;
    const bool shaken = SSL_connect(tls.get()) == 1;
    result.verification = SSL_get_verify_result(tls.get());
    if (!shaken) return result;
    std::string answer(7, '\0');
    if (SSL_write(tls.get(), "PING\r\n", 6) == 6 &&
        SSL_read(tls.get(), answer.data(), static_cast<int>(answer.size())) == 7) {
        result.answer = answer;
    }
    return result;
}

class certificates_test : public testing::Test {
  protected:
    // If the server has closed the connection, a write by OpenSSL raises SIGPIPE, which would end
    // the test.
    void SetUp() override { std::signal(SIGPIPE, SIG_IGN); }

    [[nodiscard]] redis_server_options with(const certificate_files& own,
                                            bool clients_need_certificates = false) const {
        return {.tls = redis_tls{.certificate = own.certificate,
                                 .key = own.key,
                                 .ca = files_.ca(),
                                 .clients_need_certificates = clients_need_certificates}};
    }
    [[nodiscard]] long verdict_on(const certificate_files& own) const {
        const redis_server server(with(own));
        return meet(client_, server.tls_port(), "localhost").verification;
    }

    certificates files_;
    client_context client_{files_};
};

TEST_F(certificates_test, the_server_certificate_is_trusted_by_name_and_by_address) {
    const redis_server server(with(files_.server()));
    for (const char* host : {"localhost", "127.0.0.1"}) {
        const auto result = meet(client_, server.tls_port(), host);
        EXPECT_EQ(result.verification, X509_V_OK);
        EXPECT_EQ(result.answer, "+PONG\r\n");
    }
}

TEST_F(certificates_test, each_invalid_certificate_has_one_fault) {
    EXPECT_EQ(verdict_on(files_.expired_server()), X509_V_ERR_CERT_HAS_EXPIRED);
    EXPECT_EQ(verdict_on(files_.other_host()), X509_V_ERR_HOSTNAME_MISMATCH);
    EXPECT_EQ(verdict_on(files_.self_signed()), X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT);
}

TEST_F(certificates_test,
       a_server_that_requests_a_client_certificate_accepts_a_client_that_sends_it) {
    const redis_server server(with(files_.server(), true));
    EXPECT_EQ(meet(client_, server.tls_port(), "localhost").answer, "");
    client_.show(files_.client());
    EXPECT_EQ(meet(client_, server.tls_port(), "localhost").answer, "+PONG\r\n");
}

}  // namespace
}  // namespace syncguard::test
