#include "net/tls.hpp"

#include <syncguard/error.hpp>

#include <boost/asio/ip/address.hpp>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <exception>

namespace syncguard::net {

namespace {

void check(const boost::system::error_code& problem, const char* purpose,
           const std::filesystem::path& file) {
    if (!problem) return;
    throw lock_error(error_code::invalid_argument, std::string("cannot use the ") + purpose + " '" +
                                                       file.string() + "': " + problem.message());
}

bool is_address(const std::string& host) {
    boost::system::error_code no;
    (void)boost::asio::ip::make_address(host, no);
    return !no;
}

}  // namespace

boost::asio::ssl::context make_tls_context(const tls_files& files) try {
    using boost::asio::ssl::context;
    context tls(context::tls_client);
    tls.set_options(context::default_workarounds | context::no_sslv2 | context::no_sslv3 |
                    context::no_tlsv1 | context::no_tlsv1_1);
    tls.set_verify_mode(boost::asio::ssl::verify_peer);

    boost::system::error_code problem;
    if (files.authorities.empty()) {
        tls.set_default_verify_paths();
    } else {
        tls.load_verify_file(files.authorities.string(), problem);
        check(problem, "CA file", files.authorities);
    }
    if (files.certificate.empty() != files.private_key.empty()) {
        throw lock_error(error_code::invalid_argument,
                         "a client certificate and its private key go together: give both files or "
                         "neither");
    }
    if (!files.certificate.empty()) {
        // Without this, OpenSSL would ask at the terminal for the password of a protected key.
        tls.set_password_callback([](std::size_t, context::password_purpose) { return ""; });
        tls.use_certificate_chain_file(files.certificate.string(), problem);
        check(problem, "client certificate", files.certificate);
        tls.use_private_key_file(files.private_key.string(), context::pem, problem);
        check(problem, "private key (which must not be protected by a password)",
              files.private_key);
    }
    return tls;
} catch (const boost::system::system_error& problem) {
    throw lock_error(error_code::internal,
                     std::string("OpenSSL cannot be set up for TLS: ") + problem.what(), {},
                     std::current_exception());
}

void expect_host(SSL* session, const std::string& host) {
    // OpenSSL itself makes both checks, so that a handshake with the wrong host does not complete.
    X509_VERIFY_PARAM* const rules = SSL_get0_param(session);
    std::string name = host;
    bool set = false;
    if (is_address(host)) {
        set = X509_VERIFY_PARAM_set1_ip_asc(rules, host.c_str()) == 1;
    } else {
        X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        set = X509_VERIFY_PARAM_set1_host(rules, host.data(), host.size()) == 1 &&
              // The macro for this has a cast that our warnings refuse.
              SSL_ctrl(session, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                       name.data()) == 1;
    }
    if (!set) {
        throw lock_error(error_code::internal, "OpenSSL does not accept the host name to verify");
    }
}

std::string certificate_problem(SSL* session) {
    const auto verdict = SSL_get_verify_result(session);
    return verdict == X509_V_OK ? std::string() : X509_verify_cert_error_string(verdict);
}

}  // namespace syncguard::net
