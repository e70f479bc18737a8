#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

#include <syncguard/connect.hpp>
#include <syncguard/sqlite.hpp>

#include <cstdlib>
#include <filesystem>

namespace syncguard::test {
namespace {

TEST(connecting, memory_and_sqlite_are_found_by_their_schemes) {
    const temporary_folder folder;
    EXPECT_EQ(connect("memory:").capabilities().backend, "memory");
    const auto locks = connect("sqlite:" + (folder / "locks.db").string());
    EXPECT_EQ(locks.capabilities().backend, "sqlite");
    EXPECT_TRUE(locks.acquire("k"));
    EXPECT_TRUE(std::filesystem::exists(folder / "locks.db"));
}

TEST(connecting, nothing_is_opened_before_the_first_operation) {
    const temporary_folder folder;
    (void)connect("sqlite:" + (folder / "locks.db").string());
    EXPECT_FALSE(std::filesystem::exists(folder / "locks.db"));
}

TEST(connecting, paths_may_be_encoded_and_may_have_slashes) {
    const temporary_folder folder;
    EXPECT_TRUE(connect("sqlite:" + folder.path().string() + "/with%20space%3f.db").acquire("k"));
    EXPECT_TRUE(std::filesystem::exists(folder / "with space?.db"));
    EXPECT_TRUE(connect("sqlite://" + (folder / "other.db").string()).acquire("k"));
    EXPECT_TRUE(std::filesystem::exists(folder / "other.db"));
}

std::string refusal(const std::string& url) {
    const auto failure = expect_error(error_code::invalid_argument, [&] { (void)connect(url); });
    return failure ? failure->what() : "";
}

TEST(connecting, what_is_unknown_is_named) {
    EXPECT_NE(refusal("etcd://host").find("'etcd:'"), std::string::npos);
    EXPECT_NE(refusal("sqlite:?journal=off").find("'journal'"), std::string::npos);
    EXPECT_NE(refusal("memory:?a=b").find("'a'"), std::string::npos);
    EXPECT_NE(refusal("sqlite:x?flag").find("'flag'"), std::string::npos);
    EXPECT_NE(refusal("sqlite:x?a=1&a=2").find("'a'"), std::string::npos);
    EXPECT_NE(refusal("sqlite:a%2").find("%25"), std::string::npos);
    EXPECT_NE(refusal("memory:name").find("memory:"), std::string::npos);
}

TEST(connecting, text_that_is_not_a_url_is_not_repeated) {
    for (const char* text : {"", "my secret password", ":x", "/locks.db"}) {
        const std::string message = refusal(text);
        EXPECT_NE(message.find("sqlite:"), std::string::npos);
        EXPECT_EQ(message.find("secret"), std::string::npos);
    }
}

class default_location : public testing::Test {
  protected:
    void SetUp() override {
        ::setenv("XDG_STATE_HOME", (folder_ / "state").c_str(), 1);
        ::setenv("HOME", (folder_ / "home").c_str(), 1);
    }
    temporary_folder folder_;
};

TEST_F(default_location, the_state_folder_is_used_and_created_for_the_user_alone) {
    EXPECT_EQ(sqlite::default_path(), folder_ / "state" / "syncguard" / "locks.db");
    EXPECT_TRUE(connect("sqlite:").acquire("k"));
    EXPECT_TRUE(std::filesystem::exists(sqlite::default_path()));
    EXPECT_EQ(std::filesystem::status(folder_ / "state" / "syncguard").permissions(),
              std::filesystem::perms::owner_all);
}

TEST_F(default_location, without_it_the_home_folder_is_used) {
    ::unsetenv("XDG_STATE_HOME");
    EXPECT_EQ(sqlite::default_path(),
              folder_ / "home" / ".local" / "state" / "syncguard" / "locks.db");
    ::setenv("XDG_STATE_HOME", "relative/path", 1);
    EXPECT_EQ(sqlite::default_path(),
              folder_ / "home" / ".local" / "state" / "syncguard" / "locks.db");
    EXPECT_TRUE(connect("sqlite:").acquire("k"));
}

}  // namespace
}  // namespace syncguard::test
