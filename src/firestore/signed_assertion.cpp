#include "firestore/signed_assertion.hpp"

#include "util/base64url.hpp"

#include <syncguard/error.hpp>

#include <boost/json.hpp>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <memory>
#include <utility>

namespace syncguard::firestore {

namespace json = boost::json;

namespace {

constexpr std::string_view scope = "https://www.googleapis.com/auth/datastore";
constexpr std::chrono::seconds longest_validity{3'600};

using key_pointer = std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)>;

/// Null if it is not an RSA key.
key_pointer read_key(const std::string& pem) {
    const std::unique_ptr<BIO, decltype(&::BIO_free)> source(
        ::BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &::BIO_free);
    // Without a callback, OpenSSL would ask at the terminal for the password of a protected key.
    const auto no_password = [](char*, int, int, void*) { return 0; };
    key_pointer key(
        source ? ::PEM_read_bio_PrivateKey(source.get(), nullptr, no_password, nullptr) : nullptr,
        &::EVP_PKEY_free);
    if (key && ::EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_RSA) key.reset();
    // Errors left in OpenSSL's queue would later be reported as the reason of other failures.
    ::ERR_clear_error();
    return key;
}

std::string signature(EVP_PKEY* key, std::string_view text) {
    const std::unique_ptr<EVP_MD_CTX, decltype(&::EVP_MD_CTX_free)> context(::EVP_MD_CTX_new(),
                                                                            &::EVP_MD_CTX_free);
    const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
    std::size_t length = 0;
    const bool begun =
        context != nullptr &&
        ::EVP_DigestSignInit(context.get(), nullptr, ::EVP_sha256(), nullptr, key) == 1 &&
        ::EVP_DigestSign(context.get(), nullptr, &length, bytes, text.size()) == 1;
    std::string signed_text(length, '\0');
    if (!begun ||
        ::EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signed_text.data()),
                         &length, bytes, text.size()) != 1) {
        ::ERR_clear_error();
        throw lock_error(error_code::internal,
                         "OpenSSL cannot sign with the service account's private key");
    }
    signed_text.resize(length);
    return signed_text;
}

}  // namespace

std::string signed_assertion(const service_account& account, std::chrono::sys_seconds now) {
    const key_pointer key = read_key(account.private_key);
    json::object header{{"alg", "RS256"}, {"typ", "JWT"}};
    if (!account.key_id.empty()) header["kid"] = account.key_id;
    const json::object claims{{"iss", account.email},
                              {"scope", json::string_view(scope.data(), scope.size())},
                              {"aud", account.token_uri},
                              {"iat", now.time_since_epoch().count()},
                              {"exp", (now + longest_validity).time_since_epoch().count()}};
    std::string token =
        base64url_text(json::serialize(header)) + "." + base64url_text(json::serialize(claims));
    return token + "." + base64url_text(signature(key.get(), token));
}

void check_private_key(const service_account& account, const std::string& file) {
    if (read_key(account.private_key)) return;
    throw lock_error(error_code::invalid_argument,
                     "the private_key in the credentials file '" + file +
                         "' is not an RSA key in PEM form without a password");
}

}  // namespace syncguard::firestore
