/// Credentials and tokens: found as Google's clients find them, fetched once, never printed.
#include "firestore/credentials.hpp"

#include "firestore/local_google.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"

#include <syncguard/firestore.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;
namespace json = boost::json;

std::string from_base64url(std::string text) {
    for (auto& c : text)
        c = c == '-' ? '+' : c == '_' ? '/' : c;
    const auto padding = (4 - text.size() % 4) % 4;
    text.append(padding, '=');
    std::string bytes(text.size(), '\0');
    const int length = ::EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                         reinterpret_cast<const unsigned char*>(text.data()),
                                         static_cast<int>(text.size()));
    bytes.resize(static_cast<std::size_t>(length) - padding);
    return bytes;
}

bool verifies(EVP_PKEY* key, const std::string& text, const std::string& signature) {
    const std::unique_ptr<EVP_MD_CTX, decltype(&::EVP_MD_CTX_free)> context(::EVP_MD_CTX_new(),
                                                                            &::EVP_MD_CTX_free);
    return ::EVP_DigestVerifyInit(context.get(), nullptr, ::EVP_sha256(), nullptr, key) == 1 &&
           ::EVP_DigestVerify(context.get(),
                              reinterpret_cast<const unsigned char*>(signature.data()),
                              signature.size(), reinterpret_cast<const unsigned char*>(text.data()),
                              text.size()) == 1;
}

class tokens : public testing::Test {
  protected:
    [[nodiscard]] firestore::backend open(const std::filesystem::path& credentials) const {
        return firestore::backend(
            {.project = "p", .endpoint = google_.endpoint(), .credentials_file = credentials},
            {.operation_timeout = 20s,
             .on_release_error = {},
             .dispose_timeout = {},
             .on_warning = {}});
    }
    std::filesystem::path write(const std::string& content) {
        const auto path = folder_ / "credentials.json";
        std::ofstream(path) << content;
        return path;
    }

    temporary_folder folder_;
    local_firestore google_;
    local_token_server giver_;
    service_account_file account_{giver_.url()};
};

TEST_F(tokens, of_a_service_account_are_requested_with_a_valid_signature) {
    const auto before = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    EXPECT_FALSE(open(account_.path()).is_locked("k"));
    EXPECT_EQ(google_.tokens_seen(), (std::vector<std::string>{"token-1"}));

    ASSERT_EQ(giver_.requests().size(), 1U);
    const auto request = giver_.requests().front();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.target, "/token");
    EXPECT_EQ(request.headers.at("content-type"), "application/x-www-form-urlencoded");
    const std::string beginning =
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
    ASSERT_TRUE(request.body.starts_with(beginning)) << request.body;
    const std::string token = request.body.substr(beginning.size());
    const auto first = token.find('.');
    const auto last = token.rfind('.');
    EXPECT_TRUE(
        verifies(account_.key(), token.substr(0, last), from_base64url(token.substr(last + 1))));

    EXPECT_EQ(json::parse(from_base64url(token.substr(0, first))),
              json::parse(R"({"alg":"RS256","typ":"JWT","kid":"key-1"})"));
    const auto claims = json::parse(from_base64url(token.substr(first + 1, last - first - 1)));
    EXPECT_EQ(claims.at("iss"), "robot@example.com");
    EXPECT_EQ(claims.at("aud").as_string(), giver_.url());
    EXPECT_EQ(claims.at("scope"), "https://www.googleapis.com/auth/datastore");
    const auto issued = claims.at("iat").to_number<std::int64_t>();
    EXPECT_GE(issued, before.time_since_epoch().count());
    EXPECT_LE(issued, before.time_since_epoch().count() + 60);
    EXPECT_EQ(claims.at("exp").to_number<std::int64_t>(), issued + 3600);
}

TEST_F(tokens, of_an_authorised_user_are_requested_with_the_stored_login) {
    const auto path = write(
        R"({"type":"authorized_user","client_id":"id&1","client_secret":"s=2","refresh_token":"r/3",)"
        R"("token_uri":")" +
        giver_.url() + "\"}");
    EXPECT_FALSE(open(path).is_locked("k"));
    ASSERT_EQ(giver_.requests().size(), 1U);
    EXPECT_EQ(giver_.requests().front().body,
              "grant_type=refresh_token&client_id=id%261&client_secret=s%3D2&refresh_token=r%2F3");
}

TEST_F(tokens, come_from_the_metadata_server_if_no_file_is_named) {
    const std::string host = "127.0.0.1:" + std::to_string(giver_.server().port());
    ::setenv("CLOUDSDK_CONFIG", folder_.path().c_str(), 1);
    ::setenv("GCE_METADATA_HOST", host.c_str(), 1);
    ::unsetenv("GOOGLE_APPLICATION_CREDENTIALS");
    EXPECT_FALSE(open({}).is_locked("k"));
    ASSERT_EQ(giver_.requests().size(), 1U);
    const auto request = giver_.requests().front();
    EXPECT_EQ(request.method, "GET");
    EXPECT_EQ(request.target, "/computeMetadata/v1/instance/service-accounts/default/token");
    EXPECT_EQ(request.headers.at("metadata-flavor"), "Google");
}

TEST_F(tokens, come_from_the_file_that_the_environment_names_then_from_that_of_the_login) {
    ::setenv("GOOGLE_APPLICATION_CREDENTIALS", account_.path().c_str(), 1);
    EXPECT_FALSE(open({}).is_locked("k"));
    EXPECT_NE(giver_.requests().at(0).body.find("assertion="), std::string::npos);

    ::unsetenv("GOOGLE_APPLICATION_CREDENTIALS");
    ::setenv("CLOUDSDK_CONFIG", folder_.path().c_str(), 1);
    std::ofstream(folder_ / "application_default_credentials.json")
        << R"({"type":"authorized_user","client_id":"i","client_secret":"s","refresh_token":"r",)"
           R"("token_uri":")" +
               giver_.url() + "\"}";
    EXPECT_FALSE(open({}).is_locked("k"));
    EXPECT_NE(giver_.requests().at(1).body.find("refresh_token"), std::string::npos);
}

TEST_F(tokens, are_fetched_once_for_many_threads_and_kept) {
    const auto locks = open(account_.path());
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 10; ++i) {
            threads.emplace_back([&, i] {
                for (int n = 0; n < 5; ++n)
                    EXPECT_FALSE(locks.is_locked("k" + std::to_string(i)));
            });
        }
    }
    EXPECT_EQ(giver_.requests().size(), 1U);
    EXPECT_EQ(google_.tokens_seen(), std::vector<std::string>(50, "token-1"));
}

TEST_F(tokens, are_renewed_before_their_expiry_without_delaying_callers) {
    // A token is renewed from half of its lifetime on, and used for three quarters of it.
    giver_.set_lifetime(12);
    const auto locks = open(account_.path());
    EXPECT_FALSE(locks.is_locked("k"));
    giver_.hold();
    ASSERT_TRUE(eventually([&] {
        EXPECT_FALSE(locks.is_locked("k"));
        return giver_.requests().size() == 2;
    }));
    // The second token has not arrived yet.
    EXPECT_FALSE(locks.is_locked("k"));
    EXPECT_EQ(google_.tokens_seen().back(), "token-1");
    giver_.resume();
    EXPECT_TRUE(eventually([&] {
        EXPECT_FALSE(locks.is_locked("k"));
        return google_.tokens_seen().back() == "token-2";
    }));
    EXPECT_EQ(giver_.requests().size(), 2U);
}

TEST_F(tokens, that_the_server_no_longer_accepts_are_replaced_once_for_many_threads) {
    const auto locks = open(account_.path());
    EXPECT_FALSE(locks.is_locked("k"));
    google_.accept_only("token-2");
    // So that all calls are under way with the first token.
    google_.answer_after(200ms);
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 10; ++i)
            threads.emplace_back([&] { EXPECT_FALSE(locks.is_locked("k")); });
    }
    EXPECT_EQ(giver_.requests().size(), 2U);
}

TEST_F(tokens, that_the_server_no_longer_accepts_are_replaced_within_the_call) {
    const auto locks = open(account_.path());
    EXPECT_FALSE(locks.is_locked("k"));
    google_.accept_only("token-2");
    auto lease = locks.acquire("k");
    ASSERT_TRUE(lease);
    EXPECT_TRUE(lease->release().ok);
    EXPECT_EQ(giver_.requests().size(), 2U);
    EXPECT_EQ(google_.commits(), 2U);
}

TEST_F(tokens, that_are_never_accepted_fail_the_call) {
    google_.accept_only("another");
    const auto locks = open(account_.path());
    const auto failure = expect_error(error_code::auth_failed, [&] { (void)locks.acquire("k"); });
    ASSERT_TRUE(failure);
    EXPECT_EQ(std::string(failure->what()).find("token-"), std::string::npos) << failure->what();
    EXPECT_EQ(giver_.requests().size(), 2U);
}

TEST_F(tokens, that_are_refused_fail_the_call_without_a_secret_and_the_next_call_tries_again) {
    giver_.refuse_with(
        {.status = 400,
         .body = R"({"error":"invalid_grant","error_description":"robot@example.com"})"});
    const auto locks = open(account_.path());
    const auto failure = expect_error(error_code::auth_failed, [&] { (void)locks.acquire("k"); });
    ASSERT_TRUE(failure);
    const std::string said = failure->what();
    EXPECT_NE(said.find("invalid_grant"), std::string::npos) << said;
    EXPECT_EQ(said.find("robot"), std::string::npos) << said;
    EXPECT_EQ(said.find("assertion"), std::string::npos) << said;
    EXPECT_EQ(said.find("PRIVATE"), std::string::npos) << said;

    giver_.refuse_with({.status = 503});
    expect_error(error_code::service_unavailable, [&] { (void)locks.acquire("k"); });
    giver_.refuse_with({.status = 429});
    expect_error(error_code::rate_limited, [&] { (void)locks.acquire("k"); });
    giver_.refuse_with({.status = 200, .body = "not a token"});
    expect_error(error_code::internal, [&] { (void)locks.acquire("k"); });
    giver_.refuse_with({.status = 200, .body = R"({"access_token":"a\r\nb","expires_in":5})"});
    expect_error(error_code::internal, [&] { (void)locks.acquire("k"); });
    giver_.accept_again();
    EXPECT_TRUE(locks.acquire("k"));
}

TEST_F(tokens, are_sent_over_tls_only_to_a_server_with_the_right_certificate) {
    const certificates certs;
    const local_firestore google(certs.server());
    const local_token_server giver(certs.server());
    const service_account_file account(giver.url());
    const firestore::options store{.project = "p",
                                   .endpoint = google.endpoint(),
                                   .ca_file = certs.ca(),
                                   .credentials_file = account.path()};
    auto lease = firestore::backend(store).acquire("k");
    ASSERT_TRUE(lease);
    EXPECT_TRUE(lease->release().ok);
}

TEST_F(tokens, are_not_requested_from_a_server_with_a_wrong_certificate) {
    const certificates certs;
    const local_firestore google(certs.server());
    for (const auto& bad : {certs.expired_server(), certs.other_host(), certs.self_signed()}) {
        const local_token_server giver(bad);
        const service_account_file account(giver.url());
        const firestore::backend locks({.project = "p",
                                        .endpoint = google.endpoint(),
                                        .ca_file = certs.ca(),
                                        .credentials_file = account.path()});
        const auto failure =
            expect_error(error_code::auth_failed, [&] { (void)locks.acquire("k"); });
        if (failure) {
            EXPECT_NE(std::string(failure->what()).find("certificate"), std::string::npos)
                << failure->what();
        }
        EXPECT_TRUE(giver.requests().empty());
    }
}

TEST_F(tokens, are_not_sent_to_a_firestore_with_a_wrong_certificate) {
    const certificates certs;
    for (const auto& bad : {certs.expired_server(), certs.other_host(), certs.self_signed()}) {
        const local_firestore google(bad);
        const firestore::backend locks({.project = "p",
                                        .endpoint = google.endpoint(),
                                        .ca_file = certs.ca(),
                                        .credentials_file = account_.path()});
        expect_error(error_code::auth_failed, [&] { (void)locks.acquire("k"); });
        EXPECT_TRUE(google.tokens_seen().empty());
    }
}

TEST_F(tokens, that_cannot_be_found_are_explained) {
    const reserved_port nobody;
    const std::string host = "127.0.0.1:" + std::to_string(nobody.number());
    ::setenv("CLOUDSDK_CONFIG", folder_.path().c_str(), 1);
    ::setenv("GCE_METADATA_HOST", host.c_str(), 1);
    ::unsetenv("GOOGLE_APPLICATION_CREDENTIALS");
    const auto failure =
        expect_error(error_code::auth_failed, [&] { (void)open({}).is_locked("k"); });
    ASSERT_TRUE(failure);
    EXPECT_NE(std::string(failure->what()).find("GOOGLE_APPLICATION_CREDENTIALS"),
              std::string::npos);
}

TEST_F(tokens, that_the_metadata_server_refuses_are_reported_by_the_kind_of_its_failure) {
    const std::string host = "127.0.0.1:" + std::to_string(giver_.server().port());
    ::setenv("CLOUDSDK_CONFIG", folder_.path().c_str(), 1);
    ::setenv("GCE_METADATA_HOST", host.c_str(), 1);
    ::unsetenv("GOOGLE_APPLICATION_CREDENTIALS");
    const auto locks = open({});
    const auto advice_at = [&](unsigned status, error_code code) {
        giver_.refuse_with({.status = status});
        const auto failure = expect_error(code, [&] { (void)locks.is_locked("k"); });
        return failure ? std::string(failure->what()).find("GOOGLE_APPLICATION_CREDENTIALS")
                       : std::string::npos;
    };
    EXPECT_EQ(advice_at(503, error_code::service_unavailable), std::string::npos);
    EXPECT_EQ(advice_at(429, error_code::rate_limited), std::string::npos);
    EXPECT_EQ(advice_at(403, error_code::auth_failed), std::string::npos);
    // A machine without a service account.
    EXPECT_NE(advice_at(404, error_code::auth_failed), std::string::npos);
    giver_.refuse_with({.cut = true});
    expect_error(error_code::service_unavailable, [&] { (void)locks.is_locked("k"); });
    giver_.accept_again();
    EXPECT_FALSE(locks.is_locked("k"));
}

TEST_F(tokens, that_never_expire_are_renewed_daily) {
    for (const char* const lifetime : {"9223372036854775807", "86401"}) {
        const auto token = firestore::decode_token(
            {.status = 200,
             .body = R"({"access_token":"t","expires_in":)" + std::string(lifetime) + "}",
             .date = {}},
            "here");
        EXPECT_EQ(token.lifetime, 24h);
    }
}

TEST_F(tokens, are_not_requested_with_an_unusable_file) {
    const std::string pem = account_.pem();
    const auto with_key = [](const std::string& key, const std::string& uri) {
        return json::serialize(json::object{{"type", "service_account"},
                                            {"client_email", "robot@example.com"},
                                            {"private_key", key},
                                            {"token_uri", uri}});
    };
    for (const std::string& content :
         {std::string(), std::string("hello"), std::string("{}"),
          std::string(R"({"type":"external_account"})"),
          std::string(R"({"type":"service_account","client_email":"robot@example.com"})"),
          std::string(R"({"type":"authorized_user","client_id":"i"})"),
          with_key("-----BEGIN PRIVATE KEY-----\nnonsense\n-----END PRIVATE KEY-----\n",
                   giver_.url()),
          with_key(pem, "http://elsewhere.example/token"), with_key(pem, "nonsense")}) {
        const auto path = write(content);
        const auto failure = expect_error(error_code::invalid_argument, [&] { (void)open(path); });
        if (!failure) continue;
        const std::string said = failure->what();
        EXPECT_NE(said.find(path.string()), std::string::npos) << said;
        EXPECT_EQ(said.find("robot"), std::string::npos) << said;
        EXPECT_EQ(said.find("nonsense"), std::string::npos) << said;
    }
    for (const char* path : {"/nowhere.json", "/"})
        expect_error(error_code::invalid_argument, [&] { (void)open(path); });
}

}  // namespace
}  // namespace syncguard::test
