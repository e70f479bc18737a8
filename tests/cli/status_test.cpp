/// `syncguard status`.
#include "cli/workspace.hpp"

namespace syncguard::cli::test {

namespace {

class status_command : public command_test {};

TEST_F(status_command, prints_free_with_exit_code_one) {
    const auto result = syncguard({"status", "k"});
    EXPECT_EQ(1, result.exit_code);
    EXPECT_EQ("free\n", result.out);
    EXPECT_EQ("{\"ok\":true,\"locked\":false}\n", syncguard({"status", "k", "--json"}).out);
}

TEST_F(status_command, prints_locked_with_exit_code_zero) {
    (void)hold("k");
    const auto result = syncguard({"status", "k"});
    EXPECT_EQ(0, result.exit_code);
    EXPECT_EQ("locked\n", result.out);
    EXPECT_EQ("{\"ok\":true,\"locked\":true}\n", syncguard({"status", "k", "--json"}).out);
}

TEST_F(status_command, treats_different_spellings_of_a_key_as_one_key) {
    (void)hold("caf\u00e9");
    EXPECT_EQ(0, syncguard({"status", "cafe\u0301"}).exit_code);
}

}  // namespace

}  // namespace syncguard::cli::test
