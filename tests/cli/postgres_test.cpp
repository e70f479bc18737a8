/// The commands on a PostgreSQL server.
#include "cli/workspace.hpp"
#include "support/postgres_server.hpp"

#include <memory>
#include <string>
#include <vector>

namespace syncguard::cli::test {

namespace {

class commands_on_postgres : public command_test {
  protected:
    [[nodiscard]] finished on_postgres(std::vector<std::string> arguments) const {
        arguments.insert(arguments.begin() + 1, {"--backend", server_.url()});
        return syncguard(arguments);
    }

    syncguard::test::postgres_server server_{{.with_tables = false}};
};

TEST_F(commands_on_postgres, recommend_setup_if_there_are_no_tables_and_work_after_it) {
    const auto before = on_postgres({"acquire", "k"});
    EXPECT_EQ(64, before.exit_code);
    EXPECT_NE(std::string::npos, before.err.find("syncguard setup")) << before.err;

    EXPECT_EQ(0, on_postgres({"setup"}).exit_code);
    EXPECT_EQ("{\"ok\":true}\n", on_postgres({"setup", "--json"}).out);

    const auto acquired = on_postgres({"acquire", "k", "--ttl", "1m"});
    ASSERT_EQ(0, acquired.exit_code) << acquired.err;
    const auto id = labelled(acquired.out, "lock-id");
    EXPECT_EQ(id, server_.value("SELECT lock_id FROM syncguard_locks WHERE key = 'k'"));
    EXPECT_EQ(75, on_postgres({"acquire", "k"}).exit_code);
    EXPECT_EQ("locked\n", on_postgres({"status", "k"}).out);
    EXPECT_EQ(0, on_postgres({"extend", id, "--ttl", "5m"}).exit_code);
    EXPECT_EQ(0, on_postgres({"release", id}).exit_code);
    EXPECT_EQ("free\n", on_postgres({"status", "k"}).out);
    EXPECT_EQ(0, on_postgres({"run", "k", "--", "true"}).exit_code);
}

TEST_F(commands_on_postgres, setup_prints_sql_that_makes_the_same_tables_by_hand) {
    const auto printed = on_postgres({"setup", "--print"});
    ASSERT_EQ(0, printed.exit_code) << printed.err;
    EXPECT_EQ("0", server_.value("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"));
    server_.run(printed.out);
    server_.run(printed.out);
    EXPECT_EQ(0, on_postgres({"run", "k", "--", "true"}).exit_code);
}

TEST_F(commands_on_postgres, setup_of_other_backends_has_nothing_to_do) {
    EXPECT_EQ(0, syncguard({"setup"}).exit_code);
    EXPECT_EQ(64, syncguard({"setup", "--print"}).exit_code);
}

TEST_F(commands_on_postgres, run_releases_even_if_the_server_was_down_when_its_command_ended) {
    ASSERT_EQ(0, on_postgres({"setup"}).exit_code);
    const auto running =
        start_script({"--backend", server_.url(), "--ttl", "1h", "k"},
                     "echo > began; while [ ! -e end ]; do sleep 0.01; done; echo > ended");
    (void)await_file("began");
    server_.shut_down();
    touch("end");
    (void)await_file("ended");
    server_.restart();
    const auto result = running->wait();
    EXPECT_EQ(0, result.exit_code) << result.err;
    EXPECT_EQ("", result.err);
    EXPECT_EQ("free\n", on_postgres({"status", "k"}).out);
}

TEST_F(commands_on_postgres, more_can_wait_at_the_same_time_than_the_server_has_connections) {
    const syncguard::test::postgres_server small(
        {.settings = {"max_connections=12", "max_wal_senders=0"}});
    const std::vector<std::string> options = {"--backend", small.url(), "k"};
    const auto holder =
        start_script(options, "echo > began; while [ ! -e end ]; do sleep 0.01; done");
    (void)await_file("began");
    std::vector<std::unique_ptr<process>> waiting;
    for (int i = 0; i < 24; ++i)
        waiting.push_back(start_script(options, "true"));
    EXPECT_TRUE(eventually(
        [&] { return small.log().find("too many clients already") != std::string::npos; }));
    touch("end");
    EXPECT_EQ(0, holder->wait(2 * patience).exit_code);
    for (const auto& each : waiting) {
        const auto result = each->wait(2 * patience);
        EXPECT_EQ(0, result.exit_code) << result.err;
    }
}

TEST_F(commands_on_postgres, a_server_that_is_down_is_named_and_its_password_is_not) {
    server_.kill();
    const auto place = "127.0.0.1:" + std::to_string(server_.port());
    const auto result = syncguard({"status", "k", "--backend", "postgres://u:hunter2@" + place});
    EXPECT_EQ(69, result.exit_code);
    EXPECT_NE(std::string::npos, result.err.find(place)) << result.err;
    EXPECT_EQ(std::string::npos, result.err.find("hunter2")) << result.err;
}

}  // namespace

}  // namespace syncguard::cli::test
