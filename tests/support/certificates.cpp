#include "support/certificates.hpp"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace syncguard::test {

namespace {

using namespace std::chrono_literals;
using std::chrono::seconds;

template <auto Free>
struct freed_by {
    template <class Object>
    void operator()(Object* object) const {
        Free(object);
    }
};
using owned_key = std::unique_ptr<EVP_PKEY, freed_by<EVP_PKEY_free>>;
using owned_certificate = std::unique_ptr<X509, freed_by<X509_free>>;
using owned_extension = std::unique_ptr<X509_EXTENSION, freed_by<X509_EXTENSION_free>>;
using owned_file = std::unique_ptr<BIO, freed_by<BIO_free>>;

/// Throws if the result of an OpenSSL function is null, zero or negative: these mean failure.
template <class Result>
Result checked(Result result, const char* action) {
    bool succeeded = false;
    if constexpr (std::is_pointer_v<Result>) {
        succeeded = result != nullptr;
    } else {
        succeeded = result > 0;
    }
    if (!succeeded) {
        std::array<char, 256> reason{};
        ERR_error_string_n(ERR_get_error(), reason.data(), reason.size());
        throw std::runtime_error(std::string(action) + ": " + reason.data());
    }
    return result;
}

struct issued {
    owned_key key;
    owned_certificate certificate;
};

struct request {
    const char* common_name;
    /// In the notation of OpenSSL's configuration, such as "DNS:localhost"; null if there are none.
    const char* alternative_names = nullptr;
    const char* basic_constraints = "critical,CA:FALSE";
    const char* key_usage = "critical,digitalSignature";
    const char* extended_key_usage = nullptr;
    /// Both relative to now.
    seconds begin = -1h;
    seconds end = 23h;
};

void extend(const request& wanted, X509* certificate, X509* issuer) {
    X509V3_CTX context{};
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    const auto add = [&](int type, const char* value) {
        if (value == nullptr) return;
        const owned_extension extension(
            checked(X509V3_EXT_conf_nid(nullptr, &context, type, value), "make an extension"));
        checked(X509_add_ext(certificate, extension.get(), -1), "add an extension");
    };
    add(NID_basic_constraints, wanted.basic_constraints);
    add(NID_key_usage, wanted.key_usage);
    add(NID_ext_key_usage, wanted.extended_key_usage);
    add(NID_subject_alt_name, wanted.alternative_names);
    add(NID_subject_key_identifier, "hash");
    add(NID_authority_key_identifier, "keyid:always");
}

/// Self-signed if there is no issuer.
issued issue(const request& wanted, const issued* issuer = nullptr) {
    issued cert{.key = owned_key(checked(EVP_EC_gen("P-256"), "make a key")),
                .certificate = owned_certificate(checked(X509_new(), "make a certificate"))};
    X509* const certificate = cert.certificate.get();
    const issued& signer = issuer != nullptr ? *issuer : cert;

    checked(X509_set_version(certificate, X509_VERSION_3), "set the version");
    std::uint32_t serial = 0;
    checked(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial), "draw a number");
    checked(ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial), "set the number");
    checked(X509_gmtime_adj(X509_getm_notBefore(certificate), wanted.begin.count()), "set begin");
    checked(X509_gmtime_adj(X509_getm_notAfter(certificate), wanted.end.count()), "set end");
    checked(X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                                       reinterpret_cast<const unsigned char*>(wanted.common_name),
                                       -1, -1, 0),
            "set the name");
    checked(X509_set_issuer_name(certificate, X509_get_subject_name(signer.certificate.get())),
            "set the issuer");
    checked(X509_set_pubkey(certificate, cert.key.get()), "set the key");
    extend(wanted, certificate, signer.certificate.get());
    checked(X509_sign(certificate, signer.key.get(), EVP_sha256()), "sign");
    return cert;
}

certificate_files save(const issued& cert, const temporary_folder& folder,
                       const std::string& name) {
    certificate_files files{.certificate = folder.path() / (name + ".crt"),
                            .key = folder.path() / (name + ".key")};
    const owned_file certificate(
        checked(BIO_new_file(files.certificate.c_str(), "w"), "create a file"));
    checked(PEM_write_bio_X509(certificate.get(), cert.certificate.get()), "write a certificate");
    const owned_file key(checked(BIO_new_file(files.key.c_str(), "w"), "create a file"));
    checked(
        PEM_write_bio_PrivateKey(key.get(), cert.key.get(), nullptr, nullptr, 0, nullptr, nullptr),
        "write a key");
    return files;
}

}  // namespace

certificates::certificates() {
    const issued authority = issue({.common_name = "SyncGuard test CA",
                                    .basic_constraints = "critical,CA:TRUE",
                                    .key_usage = "critical,keyCertSign,cRLSign"});
    const request good_server = {.common_name = "localhost",
                                 .alternative_names = "DNS:localhost,IP:127.0.0.1",
                                 .extended_key_usage = "serverAuth"};
    request expired = good_server;
    expired.begin = -2h;
    expired.end = -1h;
    request other_host = good_server;
    other_host.common_name = "elsewhere.example";
    other_host.alternative_names = "DNS:elsewhere.example";

    authority_ = save(authority, folder_, "ca");
    server_ = save(issue(good_server, &authority), folder_, "server");
    expired_ = save(issue(expired, &authority), folder_, "expired");
    other_host_ = save(issue(other_host, &authority), folder_, "other_host");
    self_signed_ = save(issue(good_server), folder_, "self_signed");
    client_ =
        save(issue({.common_name = "a client", .extended_key_usage = "clientAuth"}, &authority),
             folder_, "client");
}

}  // namespace syncguard::test
