/// TLS to a PostgreSQL server: works with valid certificates, and fails closed otherwise.
#include "postgres/postgres_fault.hpp"
#include "support/certificates.hpp"

#include <string>

namespace syncguard::test {
namespace {

class postgres_tls : public testing::Test {
  protected:
    static const certificates& issued() {
        static const certificates all;
        return all;
    }
    /// Options of a server that requires TLS and a password.
    [[nodiscard]] static postgres_server_options secured(const certificate_files& presented) {
        return {.host_rules = "hostssl all all 127.0.0.1/32 scram-sha-256\n",
                .certificate = presented};
    }
    [[nodiscard]] static postgres::backend open(const postgres_server& server,
                                                const std::string& host = "127.0.0.1",
                                                const std::string& mode = "verify-full") {
        server.run("ALTER ROLE postgres PASSWORD 'sesame-open'");
        return postgres::backend(
            {.connection = "host=" + host + " port=" + std::to_string(server.port()) +
                           " user=postgres password=sesame-open dbname=postgres "
                           "gssencmode=disable sslmode=" +
                           mode + " sslrootcert=" + issued().ca().string()},
            quiet());
    }
    static void expect_refusal(const postgres::backend& locks) {
        const auto failure =
            expect_error(error_code::auth_failed, [&] { (void)locks.acquire("k"); });
        if (!failure) return;
        const std::string said = failure->what();
        EXPECT_NE(said.find("certificate"), std::string::npos) << said;
        EXPECT_EQ(said.find("sesame"), std::string::npos) << said;
    }
};

TEST_F(postgres_tls, a_valid_certificate_is_accepted_by_name_and_by_address) {
    const postgres_server server(secured(issued().server()));
    for (const char* host : {"127.0.0.1", "localhost"}) {
        const auto locks = open(server, host);
        auto lease = locks.acquire("k");
        ASSERT_TRUE(lease);
        EXPECT_EQ(server.value("SELECT bool_and(ssl)::text FROM pg_stat_ssl JOIN pg_stat_activity "
                               "USING (pid) WHERE client_addr IS NOT NULL"),
                  "true");
        EXPECT_TRUE(lease->extend().ok);
        EXPECT_TRUE(lease->release().ok);
    }
}

TEST_F(postgres_tls, invalid_certificates_are_refused) {
    for (const auto* presented :
         {&issued().expired_server(), &issued().other_host(), &issued().self_signed()}) {
        const postgres_server server(secured(*presented));
        expect_refusal(open(server));
    }
}

TEST_F(postgres_tls, a_server_without_tls_is_refused_if_tls_is_required) {
    const postgres_server server;
    expect_error(error_code::service_unavailable,
                 [&] { (void)open(server, "127.0.0.1", "require").acquire("k"); });
}

TEST_F(postgres_tls, a_client_without_tls_is_refused_by_a_server_that_requires_it) {
    const postgres_server server(secured(issued().server()));
    expect_error(error_code::auth_failed,
                 [&] { (void)open(server, "127.0.0.1", "disable").acquire("k"); });
}

TEST_F(postgres_tls, an_unknown_mode_is_an_invalid_argument) {
    const postgres_server server;
    expect_error(error_code::invalid_argument,
                 [&] { (void)open(server, "127.0.0.1", "bogus").acquire("k"); });
}

}  // namespace
}  // namespace syncguard::test
