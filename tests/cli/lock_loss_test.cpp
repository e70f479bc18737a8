/// `syncguard run` when its lock is lost: the command must end before the lock's TTL does.
#include "cli/workspace.hpp"
#include "support/sqlite_connection.hpp"

#include <signal.h>

#include <chrono>
#include <fstream>
#include <optional>

namespace syncguard::cli::test {

namespace {

using clock = std::chrono::steady_clock;

/// Scripts that would run for ever check that one of their files exists, so that they end with the
/// test's folder even if `run` fails to end them.
class lock_loss : public command_test {
  protected:
    /// Another program takes the write lock of the file: calls that write fail until
    /// `repair_store`.
    void break_store() {
        writer_.emplace(database());
        writer_->run("BEGIN IMMEDIATE");
    }
    void repair_store() { writer_.reset(); }

  private:
    std::optional<syncguard::test::sqlite_connection> writer_;
};

TEST_F(lock_loss, ends_the_command_with_sigterm_and_exit_code_79) {
    const auto run = start_script({"--ttl", "3s", "k"},
                                  "trap 'echo > terminated; exit 0' TERM\n"
                                  "echo $SYNCGUARD_LOCK_ID > id\n"
                                  "while [ -e id ]; do sleep 0.05; done");
    EXPECT_EQ(0, syncguard({"release", await_file("id")}).exit_code);
    const auto result = run->wait();
    EXPECT_EQ(79, result.exit_code);
    EXPECT_NE(std::string::npos, result.err.find("lost the lock 'k'")) << result.err;
    EXPECT_TRUE(std::filesystem::exists(file("terminated")));
}

TEST_F(lock_loss, is_reported_in_json_with_its_cause) {
    const auto run =
        start_script({"--ttl", "1s", "--json", "k"}, "echo $SYNCGUARD_LOCK_ID > id; exec sleep 60");
    EXPECT_EQ(0, syncguard({"release", await_file("id")}).exit_code);
    const auto result = run->wait();
    EXPECT_EQ(79, result.exit_code);
    const auto answer = json_of(result.out);
    EXPECT_FALSE(answer.at("ok").as_bool());
    EXPECT_EQ("lost", answer.at("reason").as_string());
    EXPECT_EQ("it was released by another client, or the store lost it",
              answer.at("cause").as_string());
}

TEST_F(lock_loss, kills_a_command_that_ignores_sigterm_before_the_ttl_ends) {
    const auto run = start_script({"--ttl", "2s", "k"},
                                  "trap '' TERM\n"
                                  "echo $$ > pid\n"
                                  "echo $SYNCGUARD_LOCK_ID > id\n"
                                  "while [ -e id ]; do sleep 0.05; done");
    const auto id = await_file("id");
    const auto pid = std::stoi(await_file("pid"));
    // The last renewal was before this time, so that the TTL ends within two seconds.
    const auto released = clock::now();
    EXPECT_EQ(0, syncguard({"release", id}).exit_code);
    EXPECT_TRUE(eventually([&] { return is_gone(pid); }));
    EXPECT_LT(clock::now() - released, std::chrono::seconds{2});
    EXPECT_EQ(79, run->wait().exit_code);
}

TEST_F(lock_loss, ends_processes_started_by_the_command_too) {
    const auto run =
        start_script({"--ttl", "1s", "k"},
                     "sleep 60 &\n"
                     "echo $! > gentle\n"
                     "sh -c 'trap \"\" TERM; echo $$ > stubborn; sleep 60; sleep 60' &\n"
                     "until [ -e stubborn ]; do sleep 0.02; done\n"
                     "echo $SYNCGUARD_LOCK_ID > id\n"
                     "wait");
    const auto id = await_file("id");
    const auto gentle = std::stoi(await_file("gentle"));
    const auto stubborn = std::stoi(await_file("stubborn"));
    EXPECT_EQ(0, syncguard({"release", id}).exit_code);
    EXPECT_EQ(79, run->wait().exit_code);
    EXPECT_TRUE(is_gone(gentle));
    EXPECT_TRUE(is_gone(stubborn));
}

TEST_F(lock_loss, ends_the_command_when_renewals_fail_for_too_long) {
    const auto run = start_script({"--ttl", "2s", "k"},
                                  "trap 'echo > terminated; exit 0' TERM\n"
                                  "echo > has\n"
                                  "while [ -e has ]; do sleep 0.05; done");
    (void)await_file("has");
    const auto broken = clock::now();
    break_store();
    const auto result = run->wait();
    EXPECT_LT(clock::now() - broken, std::chrono::seconds{2} + std::chrono::seconds{1});
    EXPECT_EQ(79, result.exit_code);
    EXPECT_NE(std::string::npos, result.err.find("could not be renewed: ")) << result.err;
    EXPECT_TRUE(std::filesystem::exists(file("terminated")));
}

TEST_F(lock_loss, comes_earlier_by_the_configured_clock_drift) {
    const auto run = start_script({"--ttl", "8s", "--clock-drift", "50%", "k"},
                                  "trap 'exit 0' TERM\n"
                                  "echo > has\n"
                                  "while [ -e has ]; do sleep 0.05; done");
    (void)await_file("has");
    const auto broken = clock::now();
    break_store();
    EXPECT_EQ(79, run->wait().exit_code);
    // SIGTERM after two seconds at most, then an attempt to release the lock for a second. With the
    // default drift SIGTERM would come after almost six.
    EXPECT_LT(clock::now() - broken, milliseconds{4500});
}

TEST_F(lock_loss, kills_a_stubborn_command_before_the_ttl_ends_when_renewals_fail) {
    const auto run = start_script(
        {"--ttl", "3s", "k"}, "trap '' TERM; echo $$ > pid; while [ -e pid ]; do sleep 0.05; done");
    const auto pid = std::stoi(await_file("pid"));
    const auto broken = clock::now();
    break_store();
    EXPECT_TRUE(eventually([&] { return is_gone(pid); }));
    EXPECT_LT(clock::now() - broken, std::chrono::seconds{3});
    EXPECT_EQ(79, run->wait().exit_code);
}

TEST_F(lock_loss, does_not_happen_if_the_store_recovers_in_time) {
    const auto run =
        start_script({"--ttl", "3s", "k"}, "echo > has; until [ -e go ]; do sleep 0.02; done");
    (void)await_file("has");
    const auto expiry = [&] {
        return json_of(syncguard({"lookup", "--key", "k", "--json"}).out)
            .at("expiresAtMs")
            .as_int64();
    };
    const auto first = expiry();
    break_store();
    // Wait beyond the first attempt to renew, which fails.
    const auto broken = clock::now();
    ASSERT_TRUE(eventually([&] { return clock::now() - broken > milliseconds{1300}; }));
    repair_store();
    EXPECT_TRUE(eventually([&] { return expiry() > first; }));
    touch("go");
    EXPECT_EQ(0, run->wait().exit_code);
}

TEST_F(lock_loss, while_run_is_stopped_is_noticed_when_it_continues) {
    const auto run = start_script({"--ttl", "1s", "k"}, "echo $$ > pid; exec sleep 60");
    const auto pid = std::stoi(await_file("pid"));
    run->signal(SIGSTOP);
    EXPECT_EQ(0, syncguard({"acquire", "k", "-w", "20"}).exit_code);
    run->signal(SIGCONT);
    const auto result = run->wait();
    EXPECT_EQ(79, result.exit_code);
    EXPECT_TRUE(is_gone(pid));
    // The lock that another client has acquired meanwhile is not released.
    EXPECT_EQ(0, syncguard({"status", "k"}).exit_code);
}

TEST_F(lock_loss, is_reported_even_if_the_command_ended_by_itself_meanwhile) {
    const auto run =
        start_script({"--ttl", "1s", "k"}, "echo $$ > pid; until [ -e go ]; do sleep 0.02; done");
    const auto pid = std::stoi(await_file("pid"));
    run->signal(SIGSTOP);
    EXPECT_EQ(0, syncguard({"acquire", "k", "-w", "20"}).exit_code);
    touch("go");
    EXPECT_TRUE(eventually([&] { return is_gone(pid); }));
    run->signal(SIGCONT);
    EXPECT_EQ(79, run->wait().exit_code);
}

TEST_F(lock_loss, that_was_not_noticed_is_reported_when_the_command_ends) {
    const auto run = start_script({"--ttl", "1h", "k"},
                                  "echo $SYNCGUARD_LOCK_ID > id\n"
                                  "until [ -e go ]; do sleep 0.02; done; exit 5");
    EXPECT_EQ(0, syncguard({"release", await_file("id")}).exit_code);
    touch("go");
    const auto result = run->wait();
    EXPECT_EQ(79, result.exit_code);
    EXPECT_NE(std::string::npos, result.err.find("exit code 5")) << result.err;
}

TEST_F(lock_loss, by_sigkill_of_run_ends_the_command) {
    const auto run = start_script({"k"}, "echo $$ > pid; exec sleep 60");
    const auto pid = std::stoi(await_file("pid"));
    run->signal(SIGKILL);
    EXPECT_EQ(SIGKILL, run->wait().signal);
    EXPECT_TRUE(eventually([&] { return is_gone(pid); }));
}

}  // namespace

}  // namespace syncguard::cli::test
