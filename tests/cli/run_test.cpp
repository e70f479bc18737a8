/// `syncguard run`: the command, its environment, and waiting for the lock.
#include "cli/workspace.hpp"
#include "support/sqlite_connection.hpp"

#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace syncguard::cli::test {

namespace {

/// For scripts: waits until the test creates the file "go".
constexpr auto until_signalled = "until [ -e go ]; do sleep 0.02; done\n";

class run_command : public command_test {};

TEST_F(run_command, ends_with_the_exit_code_of_the_command_and_prints_nothing_itself) {
    const auto result = syncguard({"run", "k", "--", "sh", "-c", "exit 7"});
    EXPECT_EQ(7, result.exit_code);
    EXPECT_EQ("", result.out + result.err);
}

TEST_F(run_command, in_json_reports_at_the_end_the_lock_and_how_the_command_ended) {
    const auto result = syncguard({"run", "k", "--json", "--", "sh", "-c", "exit 7"});
    EXPECT_EQ(7, result.exit_code);
    const auto answer = json_of(result.out);
    EXPECT_TRUE(answer.at("ok").as_bool());
    EXPECT_EQ("000000000000001", answer.at("fence").as_string());
    EXPECT_EQ(22U, answer.at("lockId").as_string().size());
    EXPECT_EQ(7, answer.at("exitCode").as_int64());
}

TEST_F(run_command, releases_the_lock_when_the_command_ends) {
    EXPECT_EQ(0, syncguard({"run", "k", "--", "true"}).exit_code);
    EXPECT_EQ(1, syncguard({"status", "k"}).exit_code);
    EXPECT_EQ(3, syncguard({"run", "k", "--", "sh", "-c", "exit 3"}).exit_code);
    EXPECT_EQ(1, syncguard({"status", "k"}).exit_code);
}

TEST_F(run_command, ends_with_128_plus_the_signal_that_killed_the_command) {
    EXPECT_EQ(128 + SIGKILL, syncguard({"run", "k", "--", "sh", "-c", "kill -9 $$"}).exit_code);
    EXPECT_EQ(1, syncguard({"status", "k"}).exit_code);
}

TEST_F(run_command, holds_the_lock_while_the_command_runs) {
    const auto running = start_script({"k"}, std::string("echo > has\n") + until_signalled);
    (void)await_file("has");
    EXPECT_EQ(0, syncguard({"status", "k"}).exit_code);
    EXPECT_EQ(75, syncguard({"acquire", "k"}).exit_code);
    touch("go");
    EXPECT_EQ(0, running->wait().exit_code);
}

TEST_F(run_command, passes_arguments_on_unchanged) {
    const auto result = syncguard(
        {"run", "k", "--", "printf", "%s|", "[a,b]", "--", "--ttl", "", "-n", "a b", "--help"});
    EXPECT_EQ("[a,b]|--|--ttl||-n|a b|--help|", result.out);
}

TEST_F(run_command, passes_lock_id_and_fence_to_the_command) {
    const auto result =
        syncguard({"run", "k", "--", "sh", "-c",
                   "echo $SYNCGUARD_KEY; echo $SYNCGUARD_FENCE; echo "
                   "$SYNCGUARD_EXPIRES_AT_MS; " SYNCGUARD_PROGRAM
                   " lookup --id $SYNCGUARD_LOCK_ID --raw --json"},
                  {.environment = {{"SYNCGUARD_KEY", "stale"}, {"SYNCGUARD_FENCE", "stale"}}});
    std::istringstream lines(result.out);
    std::string key, fence, expires, lookup;
    std::getline(lines, key);
    std::getline(lines, fence);
    std::getline(lines, expires);
    std::getline(lines, lookup);
    const auto info = json_of(lookup + "\n");
    EXPECT_EQ("k", key);
    EXPECT_EQ(info.at("fence").as_string(), fence);
    EXPECT_EQ(std::to_string(info.at("expiresAtMs").as_int64()), expires);
}

TEST_F(run_command, gives_the_command_its_own_standard_streams) {
    const auto result =
        syncguard({"run", "k", "--", "sh", "-c", "cat; echo problem >&2"}, {.input = "some input"});
    EXPECT_EQ("some input", result.out);
    EXPECT_EQ("problem\n", result.err);
}

TEST_F(run_command, leaves_no_other_files_open_for_the_command) {
    const auto open_files = [&](const std::vector<std::string>& prefix) {
        auto command = prefix;
        for (const auto& each : {"ls", "/proc/self/fd"})
            command.emplace_back(each);
        process direct(file("."), command,
                       {.environment = {{"SYNCGUARD_BACKEND", "sqlite:" + database().string()}}});
        return direct.wait().out;
    };
    EXPECT_EQ(open_files({"env"}), open_files({SYNCGUARD_PROGRAM, "run", "k", "--"}));
}

TEST_F(run_command, exits_with_127_if_there_is_no_such_command_and_releases_the_lock) {
    const auto result = syncguard({"run", "k", "--", "no-such-command-anywhere"});
    EXPECT_EQ(127, result.exit_code);
    EXPECT_NE(std::string::npos, result.err.find("no-such-command-anywhere")) << result.err;
    EXPECT_EQ(1, syncguard({"status", "k"}).exit_code);

    const auto json = syncguard({"run", "k", "--json", "--", "no-such-command-anywhere"});
    EXPECT_EQ(127, json.exit_code);
    EXPECT_EQ(false, json_of(json.out).at("ok").as_bool());
}

TEST_F(run_command, exits_with_126_if_the_command_cannot_be_executed_and_releases_the_lock) {
    touch("not-executable");
    EXPECT_EQ(126, syncguard({"run", "k", "--", file("not-executable")}).exit_code);
    EXPECT_EQ(126, syncguard({"run", "k", "--", file(".")}).exit_code);
    EXPECT_EQ(1, syncguard({"status", "k"}).exit_code);
}

TEST_F(run_command, does_not_start_the_command_if_it_may_not_wait) {
    (void)hold("k");
    const auto result = start_script({"-n", "k"}, "echo > started")->wait();
    EXPECT_EQ(75, result.exit_code);
    EXPECT_NE(std::string::npos, result.err.find("'k' is locked")) << result.err;
    EXPECT_FALSE(std::filesystem::exists(file("started")));
    EXPECT_EQ("{\"ok\":false,\"reason\":\"locked\"}\n",
              syncguard({"run", "--json", "-n", "k", "--", "true"}).out);
}

TEST_F(run_command, waits_fractions_of_seconds) {
    (void)hold("k");
    const auto began = std::chrono::steady_clock::now();
    EXPECT_EQ(75, syncguard({"run", "-w", "0.35", "k", "--", "true"}).exit_code);
    EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds{350});
}

TEST_F(run_command, uses_another_exit_code_for_conflicts_if_configured) {
    (void)hold("k");
    EXPECT_EQ(9, syncguard({"run", "-n", "-E", "9", "k", "--", "true"}).exit_code);
    EXPECT_EQ(0, syncguard({"run", "-n", "--conflict-exit-code=0", "k", "--", "false"}).exit_code);
    EXPECT_EQ(1, syncguard({"run", "-E", "9", "free", "--", "false"}).exit_code);
}

TEST_F(run_command, waits_until_the_lock_is_free) {
    const auto first = start_script({"k"}, std::string("echo $SYNCGUARD_FENCE > first\n") +
                                               until_signalled + "echo > first_done");
    const auto first_fence = await_file("first");
    const auto second = start_script({"k"}, "[ -e first_done ] && echo $SYNCGUARD_FENCE > second");
    EXPECT_EQ(75, syncguard({"run", "-w", "0.3", "k", "--", "true"}).exit_code);
    EXPECT_TRUE(second->running());
    touch("go");
    EXPECT_EQ(0, first->wait().exit_code);
    EXPECT_EQ(0, second->wait().exit_code);
    EXPECT_LT(first_fence, await_file("second"));
}

TEST_F(run_command, runs_one_command_at_a_time) {
    // Each command adds one to a number, protected only by the lock.
    std::ofstream(file("number")) << "0\n";
    std::vector<std::unique_ptr<process>> all;
    for (int i = 0; i < 8; ++i) {
        all.push_back(start_script({"k"},
                                   "mkdir inside || exit 99\n"
                                   "read n < number; sleep 0.02; echo $((n + 1)) > number\n"
                                   "rmdir inside"));
    }
    for (const auto& each : all)
        EXPECT_EQ(0, each->wait().exit_code);
    EXPECT_EQ("8", await_file("number"));
}

TEST_F(run_command, renews_the_lock_for_as_long_as_the_command_runs) {
    // Longer than three TTLs, and longer than a TTL plus the store's tolerance.
    const auto running = start_script({"--ttl", "1s", "k"}, "echo > has; sleep 3.2; echo > done");
    (void)await_file("has");
    finished other;
    ASSERT_TRUE(eventually([&] {
        const bool ended = std::filesystem::exists(file("done"));
        other = syncguard({"acquire", "k"});
        return other.exit_code != 75 || ended;
    }));
    EXPECT_TRUE(std::filesystem::exists(file("done")));
    EXPECT_EQ(0, running->wait().exit_code);
}

TEST_F(run_command, ends_promptly_with_128_plus_the_signal_while_it_waits) {
    (void)hold("k");
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
        const auto waiting = start_script({"k"}, "echo > started");
        // Before `run` has set up its signals, the kernel would end it.
        ASSERT_TRUE(eventually([&] {
            const auto status = contents("/proc/" + std::to_string(waiting->pid()) + "/status");
            return status.find("SigBlk:\t0000000000000000") == std::string::npos &&
                   status.find("Name:\tsyncguard") != std::string::npos;
        }));
        const auto began = std::chrono::steady_clock::now();
        waiting->signal(signal);
        EXPECT_EQ(128 + signal, waiting->wait().exit_code);
        EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds{2});
    }
    EXPECT_FALSE(std::filesystem::exists(file("started")));
}

TEST_F(run_command, continues_to_wait_when_an_ignored_signal_arrives) {
    const auto id = hold("k");
    const auto waiting = start_script({"k"}, "exit 5", {.ignored_signals = {SIGHUP}});
    ASSERT_TRUE(eventually([&] {
        const auto status = contents("/proc/" + std::to_string(waiting->pid()) + "/status");
        return status.find("Threads:\t") != std::string::npos &&
               status.find("Threads:\t1\n") == std::string::npos;
    }));
    waiting->signal(SIGHUP);
    EXPECT_EQ(0, syncguard({"release", id}).exit_code);
    EXPECT_EQ(5, waiting->wait().exit_code);
}

TEST_F(run_command, warns_but_keeps_the_exit_code_if_the_release_fails) {
    const auto running =
        start_script({"k"}, std::string("echo > has\n") + until_signalled + "exit 4");
    (void)await_file("has");
    syncguard::test::sqlite_connection other_program(database());
    other_program.run("BEGIN IMMEDIATE");
    touch("go");
    const auto result = running->wait();
    EXPECT_EQ(4, result.exit_code);
    EXPECT_NE(std::string::npos, result.err.find("cannot release 'k'")) << result.err;
}

TEST_F(run_command, finds_its_program_as_a_shell_does) {
    std::filesystem::create_directory(file("first"));
    std::filesystem::create_directory(file("second"));
    std::ofstream(file("first/job")) << "not executable";
    // Without "#!": the shell executes it.
    std::ofstream(file("second/job")) << "echo \"$0 $1\" > " << file("ran").string() << "\n";
    std::filesystem::permissions(file("second/job"), std::filesystem::perms::owner_all);
    const auto path = file("absent").string() + ":" + file("first").string() + ":" +
                      file("second").string() + ":" + std::getenv("PATH");
    const auto result =
        syncguard({"run", "k", "--", "job", "argument"}, {.environment = {{"PATH", path}}});
    EXPECT_EQ(0, result.exit_code) << result.err;
    EXPECT_EQ(file("second/job").string() + " argument", await_file("ran"));
    // The only file of this name is not executable.
    EXPECT_EQ(126, syncguard({"run", "k", "--", "job"},
                             {.environment = {{"PATH", file("first").string() + ":/bin"}}})
                       .exit_code);
    EXPECT_EQ(127,
              syncguard({"run", "k", "--", "job"}, {.environment = {{"PATH", "/bin"}}}).exit_code);
}

}  // namespace

}  // namespace syncguard::cli::test
