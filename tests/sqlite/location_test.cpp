/// The file that a URL or a path refers to.
#include "support/child_process.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

#include <syncguard/connect.hpp>
#include <syncguard/sqlite.hpp>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;

TEST(connecting, sqlite_is_found_by_its_scheme) {
    const temporary_folder folder;
    const auto locks = connect("sqlite:" + (folder / "locks.db").string());
    EXPECT_EQ(locks.capabilities().backend, "sqlite");
    EXPECT_TRUE(locks.acquire("k"));
    EXPECT_TRUE(std::filesystem::exists(folder / "locks.db"));
}

TEST(connecting, options_that_sqlite_does_not_have_are_named) {
    const auto failure = expect_error(error_code::invalid_argument,
                                      [] { (void)connect("sqlite:x.db?journal=off"); });
    EXPECT_NE(std::string(failure->what()).find("'journal'"), std::string::npos);
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

class relative_path : public testing::Test {
  protected:
    void SetUp() override {
        std::filesystem::create_directory(folder_ / "sub");
        std::filesystem::current_path(folder_.path());
    }
    void TearDown() override { std::filesystem::current_path(before_); }

    std::filesystem::path before_ = std::filesystem::current_path();
    temporary_folder folder_;
};

TEST_F(relative_path, refers_to_the_same_file_after_the_program_changes_its_folder) {
    const auto locks = connect("sqlite:rel.db");
    auto lease = locks.acquire("k");
    ASSERT_TRUE(lease);
    std::filesystem::current_path(folder_ / "sub");
    EXPECT_FALSE(locks.acquire("k"));
    EXPECT_TRUE(lease->release().ok);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "sub/rel.db"));
}

TEST_F(relative_path, names_that_are_special_to_sqlite_are_ordinary_files) {
    for (const std::string name : {":memory:", "file::memory:", "file:x.db%3Fmode=memory"}) {
        SCOPED_TRACE(name);
        const std::string url = "sqlite:" + name;
        auto lease = connect(url).acquire("k");
        ASSERT_TRUE(lease);
        EXPECT_FALSE(connect(url).acquire("k"));
    }
    EXPECT_TRUE(std::filesystem::exists(folder_ / ":memory:"));
    EXPECT_TRUE(std::filesystem::exists(folder_ / "file:x.db?mode=memory"));
}

TEST_F(relative_path, a_nul_byte_is_refused_and_does_not_cut_the_name) {
    expect_error(error_code::invalid_argument, [] { (void)connect("sqlite:a.db%00tail"); });
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

TEST_F(default_location, without_a_state_folder_the_home_folder_is_used) {
    ::unsetenv("XDG_STATE_HOME");
    EXPECT_EQ(sqlite::default_path(),
              folder_ / "home" / ".local" / "state" / "syncguard" / "locks.db");
    ::setenv("XDG_STATE_HOME", "relative/path", 1);
    EXPECT_EQ(sqlite::default_path(),
              folder_ / "home" / ".local" / "state" / "syncguard" / "locks.db");
    EXPECT_TRUE(connect("sqlite:").acquire("k"));
}

TEST_F(default_location, a_folder_that_cannot_be_created_is_reported_as_a_permission_problem) {
    std::filesystem::create_directory(folder_ / "state");
    std::filesystem::permissions(folder_ / "state", std::filesystem::perms(0700));
    std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
    child_process child([&] {
        constexpr uid_t nobody = 65534;
        if (::geteuid() == 0 && (::setgid(nobody) != 0 || ::setuid(nobody) != 0)) return 98;
        const auto failure =
            expect_error(error_code::auth_failed, [] { (void)connect("sqlite:").acquire("k"); });
        return failure && std::string(failure->what()).find("syncguard") != std::string::npos ? 0
                                                                                              : 1;
    });
    EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace syncguard::test
