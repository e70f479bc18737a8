/// `syncguard run` and signals: which of them reach the command, how often, and the signal
/// dispositions with which it starts.
#include "cli/workspace.hpp"

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <unistd.h>

#include <sstream>

namespace syncguard::cli::test {

namespace {

class signals : public command_test {
  protected:
    [[nodiscard]] std::unique_ptr<process> start_recorder(int last,
                                                          start_options options = {}) const {
        auto recorder =
            start({"run", "k", "--", SIGNAL_RECORDER, std::to_string(last)}, std::move(options));
        EXPECT_TRUE(eventually([&] { return recorder->out().ends_with("\n"); }));
        return recorder;
    }

    [[nodiscard]] static pid_t command_of(const process& run) {
        std::istringstream text(run.out());
        std::string ready;
        pid_t pid = 0;
        text >> ready >> pid;
        return pid;
    }

    /// The recorder's output without its first line.
    [[nodiscard]] static std::string recorded(const std::string& out) {
        return out.substr(out.find('\n') + 1);
    }
};

class forwarded_signal : public signals, public ::testing::WithParamInterface<int> {};

TEST_P(forwarded_signal, reaches_the_command_once) {
    const auto run = start_recorder(GetParam() == SIGTERM ? SIGINT : SIGTERM);
    run->signal(GetParam());
    const auto expected = std::to_string(GetParam()) + "\n";
    EXPECT_TRUE(eventually([&] { return recorded(run->out()) == expected; })) << run->out();
    run->signal(GetParam() == SIGTERM ? SIGINT : SIGTERM);
    const auto result = run->wait();
    EXPECT_EQ(0, result.exit_code);
    EXPECT_EQ(expected + (GetParam() == SIGTERM ? "2\n" : "15\n"), recorded(result.out));
    EXPECT_EQ(1, syncguard({"status", "k"}).exit_code);
}

INSTANTIATE_TEST_SUITE_P(all, forwarded_signal,
                         ::testing::Values(SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2),
                         [](const auto& each) { return std::string(sigabbrev_np(each.param)); });

TEST_F(signals, that_kill_the_command_give_the_exit_code) {
    const auto run = start_script({"k"}, "echo > has; exec sleep 60");
    (void)await_file("has");
    run->signal(SIGTERM);
    EXPECT_EQ(128 + SIGTERM, run->wait().exit_code);
    EXPECT_EQ(1, syncguard({"status", "k"}).exit_code);
}

/// Signals 32 and 33 belong to the C library, which sets them as it needs, whatever the program
/// inherited.
std::string without_c_library_signals(const std::string& states) {
    std::istringstream lines(states);
    std::ostringstream kept;
    std::string name;
    unsigned long long mask = 0;
    while (lines >> name >> std::hex >> mask)
        kept << name << std::hex << (mask & ~0x180000000ULL) << ' ';
    return kept.str();
}

TEST_F(signals, have_the_same_dispositions_in_the_command_as_run_inherited) {
    const auto states = [&](const std::vector<std::string>& prefix, std::vector<int> ignored) {
        auto command = prefix;
        for (const auto& each : {"grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"})
            command.emplace_back(each);
        process started(file("."), command,
                        {.environment = {{"SYNCGUARD_BACKEND", "sqlite:" + database().string()}},
                         .ignored_signals = std::move(ignored)});
        return without_c_library_signals(started.wait().out);
    };
    const std::vector<std::string> under_run{SYNCGUARD_PROGRAM, "run", "k", "--"};
    for (const std::vector<int>& ignored :
         {std::vector<int>{}, std::vector<int>{SIGHUP}, std::vector<int>{SIGINT, SIGQUIT},
          std::vector<int>{SIGCHLD}, std::vector<int>{SIGPIPE}}) {
        const auto direct = states({}, ignored);
        EXPECT_NE("", direct);
        EXPECT_EQ(direct, states(under_run, ignored));
    }
}

TEST_F(signals, ignored_by_the_parent_stay_ignored_as_under_nohup) {
    const auto run = start_script({"k"}, "echo > has; until [ -e go ]; do sleep 0.02; done; exit 3",
                                  {.ignored_signals = {SIGHUP}});
    (void)await_file("has");
    run->signal(SIGHUP);
    EXPECT_EQ(0, syncguard({"status", "k"}).exit_code);
    touch("go");
    EXPECT_EQ(3, run->wait().exit_code);
}

TEST_F(signals, the_exit_code_is_known_even_if_sigchld_was_inherited_as_ignored) {
    EXPECT_EQ(7, syncguard({"run", "k", "--", "sh", "-c", "exit 7"}, {.ignored_signals = {SIGCHLD}})
                     .exit_code);
}

TEST_F(signals, from_the_terminal_reach_the_command_once) {
    int controller = -1;
    int terminal = -1;
    ASSERT_EQ(0, ::openpty(&controller, &terminal, nullptr, nullptr, nullptr));
    ::fcntl(controller, F_SETFD, FD_CLOEXEC);
    ::fcntl(terminal, F_SETFD, FD_CLOEXEC);
    const auto run = start_recorder(SIGTERM, {.terminal = terminal});

    ASSERT_EQ(1, ::write(controller, "\x03", 1));
    EXPECT_TRUE(eventually([&] { return recorded(run->out()) == "2\n"; })) << run->out();
    ASSERT_EQ(1, ::write(controller, "\x1c", 1));
    EXPECT_TRUE(eventually([&] { return recorded(run->out()) == "2\n3\n"; })) << run->out();
    // `run` forwards this signal after the others: when it arrives, no copies of them are under
    // way.
    run->signal(SIGTERM);
    const auto result = run->wait();
    EXPECT_EQ(0, result.exit_code);
    EXPECT_EQ("2\n3\n15\n", recorded(result.out));
    ::close(controller);
    ::close(terminal);
}

TEST_F(signals, a_hangup_of_the_terminal_reaches_the_command) {
    int controller = -1;
    int terminal = -1;
    ASSERT_EQ(0, ::openpty(&controller, &terminal, nullptr, nullptr, nullptr));
    ::fcntl(controller, F_SETFD, FD_CLOEXEC);
    ::fcntl(terminal, F_SETFD, FD_CLOEXEC);
    const auto run = start_recorder(SIGHUP, {.terminal = terminal});
    ::close(terminal);
    ::close(controller);
    const auto result = run->wait();
    EXPECT_EQ(0, result.exit_code);
    EXPECT_EQ("1\n", recorded(result.out));
}

TEST_F(signals, a_stopped_command_keeps_its_lock_and_can_continue) {
    const auto run = start({"run", "--ttl", "1s", "k", "--", SIGNAL_RECORDER, "15"});
    ASSERT_TRUE(eventually([&] { return run->out().ends_with("\n"); }));
    const auto command = command_of(*run);
    ASSERT_EQ(0, ::kill(command, SIGSTOP));
    // Longer than the TTL and the store's tolerance together.
    EXPECT_EQ(75, syncguard({"acquire", "k", "-w", "2.2"}).exit_code);
    ASSERT_EQ(0, ::kill(command, SIGCONT));
    run->signal(SIGTERM);
    EXPECT_EQ(0, run->wait().exit_code);
}

}  // namespace

}  // namespace syncguard::cli::test
