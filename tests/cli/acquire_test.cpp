/// `syncguard acquire`.
#include "cli/workspace.hpp"

#include <chrono>
#include <ctime>

namespace syncguard::cli::test {

namespace {

class acquire_command : public command_test {};

TEST_F(acquire_command, prints_lock_id_fence_and_expiry_and_keeps_the_lock) {
    const auto result = syncguard({"acquire", "k"});
    EXPECT_EQ(0, result.exit_code);
    EXPECT_EQ("lock-id: " + labelled(result.out, "lock-id") +
                  "\nfence: 000000000000001\nexpires: " + labelled(result.out, "expires") + "\n",
              result.out);
    EXPECT_EQ(22U, labelled(result.out, "lock-id").size());
    std::tm expiry{};
    const auto expires = labelled(result.out, "expires");
    const char* fraction = ::strptime(expires.c_str(), "%Y-%m-%dT%H:%M:%S", &expiry);
    ASSERT_NE(nullptr, fraction) << expires;
    EXPECT_EQ('.', *fraction);
    EXPECT_EQ(std::string("2026-01-01T00:00:00.000Z").size(), expires.size());
    EXPECT_EQ("", result.err);
    EXPECT_EQ(0, syncguard({"status", "k"}).exit_code);
}

TEST_F(acquire_command, answers_in_json_with_the_names_of_the_specification) {
    const auto before = std::chrono::system_clock::now().time_since_epoch();
    const auto answer = json_of(syncguard({"acquire", "k", "--ttl", "5m", "--json"}).out);
    EXPECT_EQ(4U, answer.size());
    EXPECT_EQ(true, answer.at("ok").as_bool());
    EXPECT_EQ(22U, answer.at("lockId").as_string().size());
    EXPECT_EQ("000000000000001", answer.at("fence").as_string());
    const milliseconds expires(answer.at("expiresAtMs").as_int64());
    EXPECT_GE(expires, before + std::chrono::minutes{5} - milliseconds{1});
    EXPECT_LE(expires, before + std::chrono::minutes{6});
}

TEST_F(acquire_command, lasts_thirty_seconds_by_default) {
    const auto before = std::chrono::system_clock::now().time_since_epoch();
    const auto answer = json_of(syncguard({"acquire", "k", "--json"}).out);
    const milliseconds expires(answer.at("expiresAtMs").as_int64());
    EXPECT_GE(expires, before + std::chrono::seconds{30} - milliseconds{1});
    EXPECT_LE(expires, before + std::chrono::seconds{45});
}

TEST_F(acquire_command, makes_one_attempt_by_default) {
    (void)hold("k");
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"acquire", "k"}, std::vector<std::string>{"acquire", "k", "-n"},
          std::vector<std::string>{"acquire", "k", "-w", "0"}}) {
        const auto result = syncguard(arguments);
        EXPECT_EQ(75, result.exit_code);
        EXPECT_EQ("", result.out);
        EXPECT_NE(std::string::npos, result.err.find("'k' is locked")) << result.err;
    }
    const auto result = syncguard({"acquire", "k", "--json"});
    EXPECT_EQ(75, result.exit_code);
    EXPECT_EQ("{\"ok\":false,\"reason\":\"locked\"}\n", result.out);
}

TEST_F(acquire_command, waits_as_long_as_requested) {
    (void)hold("k");
    const auto began = std::chrono::steady_clock::now();
    EXPECT_EQ(75, syncguard({"acquire", "k", "--wait", "0.4"}).exit_code);
    EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds{400});
}

TEST_F(acquire_command, gets_the_lock_when_it_becomes_free_while_it_waits) {
    const auto id = hold("k");
    const auto waiting = start({"acquire", "k", "--wait", "20"});
    EXPECT_EQ(0, syncguard({"release", id}).exit_code);
    const auto result = waiting->wait();
    EXPECT_EQ(0, result.exit_code);
    EXPECT_EQ("000000000000002", labelled(result.out, "fence"));
}

TEST_F(acquire_command, releases_the_lock_if_it_cannot_print_the_id) {
    const auto result =
        process(file("."), {"sh", "-c", SYNCGUARD_PROGRAM " acquire k >/dev/full"},
                {.environment = {{"SYNCGUARD_BACKEND", "sqlite:" + database().string()}}})
            .wait();
    EXPECT_EQ(70, result.exit_code);
    EXPECT_NE(std::string::npos, result.err.find("standard output")) << result.err;
    EXPECT_EQ(1, syncguard({"status", "k"}).exit_code);
}

}  // namespace

}  // namespace syncguard::cli::test
