/// `syncguard lookup`.
#include "cli/workspace.hpp"

namespace syncguard::cli::test {

namespace {

class lookup_command : public command_test {};

TEST_F(lookup_command, shows_hashes_only) {
    const auto id = hold("secret-key");
    for (const std::vector<std::string>& selector :
         {std::vector<std::string>{"lookup", "--key", "secret-key"},
          std::vector<std::string>{"lookup", "--id", id}}) {
        const auto result = syncguard(selector);
        EXPECT_EQ(0, result.exit_code);
        EXPECT_EQ(24U, labelled(result.out, "key-hash").size());
        EXPECT_EQ(24U, labelled(result.out, "lock-id-hash").size());
        EXPECT_EQ("000000000000001", labelled(result.out, "fence"));
        EXPECT_TRUE(labelled(result.out, "acquired").ends_with("Z"));
        EXPECT_TRUE(labelled(result.out, "expires").ends_with("Z"));
        EXPECT_EQ(std::string::npos, result.out.find("secret-key"));
        EXPECT_EQ(std::string::npos, result.out.find(id));
    }
}

TEST_F(lookup_command, answers_in_json_with_the_names_of_the_specification) {
    (void)hold("k", "30s");
    const auto answer = json_of(syncguard({"lookup", "--key", "k", "--json"}).out);
    EXPECT_EQ(6U, answer.size());
    EXPECT_EQ(true, answer.at("ok").as_bool());
    EXPECT_EQ(24U, answer.at("keyHash").as_string().size());
    EXPECT_EQ(24U, answer.at("lockIdHash").as_string().size());
    EXPECT_EQ("000000000000001", answer.at("fence").as_string());
    EXPECT_EQ(30'000, answer.at("expiresAtMs").as_int64() - answer.at("acquiredAtMs").as_int64());
}

TEST_F(lookup_command, shows_key_and_lock_id_if_raw_is_requested) {
    const auto id = hold("k");
    const auto answer = json_of(syncguard({"lookup", "--id", id, "--raw", "--json"}).out);
    EXPECT_EQ("k", answer.at("key").as_string());
    EXPECT_EQ(id, answer.at("lockId").as_string());
    EXPECT_EQ(24U, answer.at("keyHash").as_string().size());

    const auto lines = syncguard({"lookup", "--key", "k", "--raw"}).out;
    EXPECT_EQ("k", labelled(lines, "key"));
    EXPECT_EQ(id, labelled(lines, "lock-id"));
}

TEST_F(lookup_command, without_a_result_has_exit_code_one) {
    const auto result = syncguard({"lookup", "--key", "k"});
    EXPECT_EQ(1, result.exit_code);
    EXPECT_EQ("", result.out);
    EXPECT_NE(std::string::npos, result.err.find("'k'")) << result.err;

    const auto json = syncguard({"lookup", "--id", "AAAAAAAAAAAAAAAAAAAAAA", "--json"});
    EXPECT_EQ(1, json.exit_code);
    EXPECT_EQ("{\"ok\":false,\"reason\":\"not-found\"}\n", json.out);
}

}  // namespace

}  // namespace syncguard::cli::test
