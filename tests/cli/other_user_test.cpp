/// `syncguard run` with a command that runs as another user, which it may not signal.
#include "cli/workspace.hpp"
#include "support/sqlite_connection.hpp"

#include <signal.h>
#include <unistd.h>

#include <optional>

namespace syncguard::cli::test {

namespace {

class command_of_another_user : public command_test {
  protected:
    void SetUp() override {
        if (::geteuid() != 0) GTEST_SKIP() << "needs root to have processes of two users";
        ASSERT_EQ(0, ::chown(file("").c_str(), nobody, nobody));
        std::filesystem::copy_file(ROOT_COMMAND, file("root_command"));
        ASSERT_EQ(0, ::chmod(file("root_command").c_str(), 04755));
    }

    /// The command has become root when this returns.
    [[nodiscard]] std::unique_ptr<process> start_root_command(const std::string& ttl) {
        auto run = start({"run", "--ttl", ttl, "k", "--", file("root_command").string(),
                          file("pid").string(), file("go").string()},
                         {.user = nobody});
        pid_ = std::stoi(await_file("pid"));
        return run;
    }

    /// Ends the command, so that it does not outlive the test.
    void TearDown() override { touch("go"); }

    [[nodiscard]] static bool says(const process& run, const std::string& text) {
        return eventually([&] { return run.err().find(text) != std::string::npos; });
    }

    [[nodiscard]] std::string lock_id() const {
        return labelled(syncguard({"lookup", "--key", "k", "--raw"}).out, "lock-id");
    }

    static constexpr uid_t nobody = 65534;
    pid_t pid_ = 0;
};

TEST_F(command_of_another_user, that_gets_no_signal_is_named_and_keeps_its_lock) {
    const auto run = start_root_command("1s");
    run->signal(SIGTERM);
    EXPECT_TRUE(says(*run, "cannot pass SIGTERM on to process " + std::to_string(pid_)))
        << run->err();
    EXPECT_FALSE(is_gone(pid_));
    // Longer than the TTL.
    EXPECT_FALSE(eventually(
        [&] {
            return syncguard({"status", "k"}).exit_code != 0;
        },
        std::chrono::milliseconds{2500}));
    touch("go");
    EXPECT_EQ(0, run->wait().exit_code);
    EXPECT_EQ(1, syncguard({"status", "k"}).exit_code);
}

TEST_F(command_of_another_user, that_cannot_be_ended_when_the_lock_is_lost_is_named) {
    const auto run = start_root_command("2s");
    EXPECT_EQ(0, syncguard({"release", lock_id()}).exit_code);
    EXPECT_TRUE(says(
        *run, "Cannot end the command: no signal can be sent to process " + std::to_string(pid_)))
        << run->err();
    EXPECT_FALSE(is_gone(pid_));
    touch("go");
    const auto result = run->wait();
    EXPECT_EQ(79, result.exit_code);
    EXPECT_EQ(result.err.find("Cannot end"), result.err.rfind("Cannot end")) << result.err;
}

TEST_F(command_of_another_user, that_cannot_be_ended_keeps_its_lock_if_the_store_recovers) {
    const auto run = start_root_command("4s");
    const auto id = lock_id();
    std::optional<syncguard::test::sqlite_connection> writer(database());
    writer->run("BEGIN IMMEDIATE");
    EXPECT_TRUE(says(*run, "Cannot end the command")) << run->err();
    writer.reset();
    // Longer than the TTL.
    EXPECT_FALSE(eventually(
        [&] {
            return syncguard({"status", "k"}).exit_code != 0;
        },
        std::chrono::milliseconds{5000}));
    EXPECT_EQ(id, lock_id());
    touch("go");
    EXPECT_EQ(79, run->wait().exit_code);
    EXPECT_EQ(1, syncguard({"status", "k"}).exit_code);
}

}  // namespace

}  // namespace syncguard::cli::test
