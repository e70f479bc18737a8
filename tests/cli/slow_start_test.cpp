/// `syncguard run` when much time passes between the fork and the execution of its command.
#include "cli/workspace.hpp"

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace syncguard::cli::test {

namespace {

class slow_start : public command_test {
  protected:
    [[nodiscard]] std::unique_ptr<process> start_slowly(const std::string& ttl, milliseconds delay,
                                                        bool stops_parent = false) const {
        touch("marker");
        start_options options{.environment = {{"LD_PRELOAD", SLOW_START_LIBRARY},
                                              {"SLOW_START_MARKER", file("marker").string()},
                                              {"SLOW_START_MS", std::to_string(delay.count())},
                                              {"SLOW_START_PID_FILE", file("child").string()}}};
        if (stops_parent) options.environment.emplace_back("SLOW_START_STOPS_PARENT", "1");
        return start_script({"--ttl", ttl, "k"}, "echo > ran; sleep 0.3; echo > done", options);
    }
};

TEST_F(slow_start, does_not_prevent_renewal_of_the_lock) {
    const auto run = start_slowly("500ms", milliseconds{2600});
    ASSERT_TRUE(eventually([&] { return !std::filesystem::exists(file("marker")); }));
    // No other client gets the lock before the command has begun.
    const auto other = start({"acquire", "k", "-w", "20"});
    (void)await_file("ran");
    EXPECT_TRUE(other->running());
    EXPECT_EQ(0, run->wait().exit_code);
    EXPECT_TRUE(std::filesystem::exists(file("done")));
    EXPECT_EQ(0, other->wait().exit_code);
}

TEST_F(slow_start, beyond_the_end_of_the_lock_does_not_start_the_command) {
    const auto run = start_slowly("300ms", milliseconds{1000}, true);
    const auto child = std::stoi(await_file("child"));
    EXPECT_TRUE(eventually([&] { return is_gone(child); }));
    run->signal(SIGCONT);
    const auto result = run->wait();
    EXPECT_EQ(79, result.exit_code);
    EXPECT_NE(std::string::npos, result.err.find("lost the lock 'k'")) << result.err;
    EXPECT_FALSE(std::filesystem::exists(file("ran")));
}

TEST_F(slow_start, of_a_script_without_interpreter_does_not_run_it_beyond_the_end_of_the_lock) {
    std::ofstream(file("script")) << "echo > " << file("ran").string() << "\n";
    std::filesystem::permissions(file("script"), std::filesystem::perms::owner_all);
    touch("marker");
    const auto run = start({"run", "--ttl", "300ms", "k", "--", file("script").string()},
                           {.environment = {{"LD_PRELOAD", SLOW_START_LIBRARY},
                                            {"SLOW_START_MARKER", file("marker").string()},
                                            {"SLOW_START_MS", "1000"},
                                            {"SLOW_START_PID_FILE", file("child").string()},
                                            {"SLOW_START_AT_EXECUTION", "1"},
                                            {"SLOW_START_STOPS_PARENT", "1"}}});
    const auto child = std::stoi(await_file("child"));
    EXPECT_TRUE(eventually([&] { return is_gone(child); }));
    run->signal(SIGCONT);
    EXPECT_EQ(79, run->wait().exit_code);
    EXPECT_FALSE(std::filesystem::exists(file("ran")));
}

/// At whichever point between the grant and the fork `run` is stopped, it notices that the lock has
/// expired.
TEST_F(slow_start, does_not_start_the_command_if_run_was_stopped_past_the_end_of_the_lock) {
    for (const char* clock_read : {"1", "2", "3", "4"}) {
        SCOPED_TRACE(clock_read);
        const auto run =
            start_script({"--ttl", "300ms", "k"}, "echo > ran",
                         {.environment = {{"LD_PRELOAD", SLOW_START_LIBRARY},
                                          {"STOP_AT_CLOCK_READ", clock_read},
                                          {"SLOW_START_PID_FILE", file("stopped").string()}}});
        EXPECT_EQ(std::to_string(run->pid()), await_file("stopped"));
        const auto other = syncguard({"acquire", "k", "-w", "20", "--ttl", "60s"});
        ASSERT_EQ(0, other.exit_code);
        run->signal(SIGCONT);
        const auto result = run->wait();
        EXPECT_EQ(79, result.exit_code) << result.err;
        EXPECT_FALSE(std::filesystem::exists(file("ran")));
        EXPECT_EQ(0, syncguard({"release", labelled(other.out, "lock-id")}).exit_code);
        std::filesystem::remove(file("stopped"));
    }
}

TEST_F(slow_start, is_ended_when_the_lock_is_lost_meanwhile) {
    const auto run = start_slowly("1s", milliseconds{10'000});
    ASSERT_TRUE(eventually([&] { return !std::filesystem::exists(file("marker")); }));
    const auto id = labelled(syncguard({"lookup", "--key", "k", "--raw"}).out, "lock-id");
    EXPECT_EQ(0, syncguard({"release", id}).exit_code);
    EXPECT_EQ(79, run->wait(milliseconds{5000}).exit_code);
    EXPECT_FALSE(std::filesystem::exists(file("ran")));
}

TEST_F(slow_start, with_sigterm_ignored_does_not_run_the_command_after_the_lock_was_lost) {
    touch("marker");
    const auto run = start_script({"--ttl", "20s", "k"}, "echo > ran",
                                  {.environment = {{"LD_PRELOAD", SLOW_START_LIBRARY},
                                                   {"SLOW_START_MARKER", file("marker").string()},
                                                   {"SLOW_START_MS", "30000"},
                                                   {"SLOW_START_PID_FILE", file("child").string()},
                                                   {"SLOW_START_AT_EXECUTION", "1"},
                                                   {"SLOW_START_UNTIL_SIGTERM", "1"}}});
    ASSERT_TRUE(eventually([&] { return !std::filesystem::exists(file("marker")); }));
    const auto id = labelled(syncguard({"lookup", "--key", "k", "--raw"}).out, "lock-id");
    EXPECT_EQ(0, syncguard({"release", id}).exit_code);
    EXPECT_EQ(79, run->wait(milliseconds{15'000}).exit_code);
    EXPECT_FALSE(std::filesystem::exists(file("ran")));
}

}  // namespace

}  // namespace syncguard::cli::test
