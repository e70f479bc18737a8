/// Accepted and refused command lines.
#include "cli/workspace.hpp"

#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

namespace syncguard::cli::test {

namespace {

class command_line : public command_test {};

TEST_F(command_line, without_arguments_prints_help_and_exits_with_a_usage_error) {
    const auto result = syncguard({});
    EXPECT_EQ(64, result.exit_code);
    EXPECT_NE(std::string::npos, result.out.find("Usage: syncguard"));
}

TEST_F(command_line, help_lists_the_exit_codes) {
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"--help"}, std::vector<std::string>{"run", "--help"}}) {
        const auto result = syncguard(arguments);
        EXPECT_EQ(0, result.exit_code);
        for (const auto* code : {" 64 ", " 69 ", " 70 ", " 75 ", " 77 ", " 79 ", " 126 ", " 127 "})
            EXPECT_NE(std::string::npos, result.out.find(code)) << code;
    }
    EXPECT_NE(std::string::npos, syncguard({"run", "--help"}).out.find("KEY -- COMMAND"));
}

TEST_F(command_line, refuses_a_store_that_would_lock_nothing) {
    const auto result = syncguard({"acquire", "k", "--backend", "memory:"});
    EXPECT_EQ(64, result.exit_code);
    EXPECT_NE(std::string::npos, result.err.find("sqlite:")) << result.err;
}

TEST_F(command_line, keys_are_shown_without_terminal_control_characters) {
    (void)hold("\x1b[31mred");
    const auto result = syncguard({"acquire", "\x1b[31mred"});
    EXPECT_EQ(75, result.exit_code);
    EXPECT_EQ(std::string::npos, result.err.find('\x1b'));
    EXPECT_NE(std::string::npos, result.err.find("'\\x1b[31mred'")) << result.err;
    const auto broken = syncguard({"acquire", "a\xff", "--json"});
    EXPECT_EQ(64, broken.exit_code);
    EXPECT_EQ(std::string::npos, broken.out.find('\xff'));
    EXPECT_FALSE(json_of(broken.out).at("ok").as_bool());
}

/// A program that holds the write lock of the lock file.
class busy_file {
  public:
    explicit busy_file(const std::filesystem::path& path) {
        sqlite3_open(path.c_str(), &file_);
        sqlite3_exec(file_, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr);
    }
    busy_file(const busy_file&) = delete;
    busy_file& operator=(const busy_file&) = delete;
    ~busy_file() { sqlite3_close(file_); }

  private:
    sqlite3* file_ = nullptr;
};

TEST_F(command_line, a_busy_store_is_not_taken_for_a_held_lock) {
    ASSERT_EQ(1, syncguard({"status", "k"}).exit_code);
    const busy_file busy(database());
    const auto result = syncguard({"run", "k", "-w", "0.2", "-E", "9", "--", "true"});
    EXPECT_EQ(69, result.exit_code);
    EXPECT_NE(std::string::npos, result.err.find("busy")) << result.err;
}

TEST_F(command_line, waiting_for_ever_outlasts_a_store_that_is_busy_for_long) {
    ASSERT_EQ(1, syncguard({"status", "k"}).exit_code);
    auto busy = std::make_unique<busy_file>(database());
    const auto waiting = start({"run", "k", "--", "true"});
    // Longer than the timeout of a single call.
    EXPECT_FALSE(eventually([&] { return !waiting->running(); }, std::chrono::milliseconds(5500)));
    busy.reset();
    EXPECT_EQ(0, waiting->wait().exit_code);
}

TEST_F(command_line, prints_its_version) {
    const auto result = syncguard({"--version"});
    EXPECT_EQ(0, result.exit_code);
    EXPECT_TRUE(result.out.starts_with("syncguard ")) << result.out;
}

TEST_F(command_line, wrong_usage_has_its_own_exit_code_and_a_message) {
    const std::vector<std::vector<std::string>> wrong{
        {"frobnicate"},
        {"acquire"},
        {"acquire", "k", "extra"},
        {"acquire", "k", "--frobnicate"},
        {"acquire", "k", "--ttl", "30"},
        {"acquire", "k", "--ttl", "soon"},
        {"acquire", "k", "--wait", "5s"},
        {"acquire", "k", "-n", "-w", "1"},
        {"acquire", ""},
        {"acquire", "k", "--ttl", "9000000h"},
        {"run", "k"},
        {"run", "k", "--"},
        {"run", "k", "true"},
        {"run", "--", "true"},
        {"run", "k", "-n", "-w", "1", "--", "true"},
        {"run", "k", "-E", "256", "--", "true"},
        {"run", "k", "-E", "x", "--", "true"},
        {"release"},
        {"release", "not-a-lock-id"},
        {"extend", "not-a-lock-id"},
        {"status"},
        {"status", "\xff"},
        {"lookup"},
        {"lookup", "--key", "k", "--id", "AAAAAAAAAAAAAAAAAAAAAA"},
        {"lookup", "--id", "x"},
        {"status", "k", "--backend", "carrier-pigeon:"},
        {"acquire", "k", "--clock-drift", "0.08"},
        {"acquire", "k", "--clock-drift", "0.5%"},
        {"acquire", "k", "--clock-drift", "51%"},
        {"acquire", "k", "--clock-drift", "nan%"},
        {"acquire", "k", "--clock-drift", "8%%"},
        {"status", "k", "--backend", "no scheme"},
    };
    for (const auto& arguments : wrong) {
        const auto result = syncguard(arguments);
        const auto text = ::testing::PrintToString(arguments);
        EXPECT_EQ(64, result.exit_code) << text;
        EXPECT_EQ("", result.out) << text;
        EXPECT_TRUE(result.err.starts_with("syncguard: ")) << text << result.err;
    }
}

TEST_F(command_line, a_ttl_without_unit_is_refused_with_a_suggestion) {
    EXPECT_NE(std::string::npos,
              syncguard({"acquire", "k", "--ttl", "30"}).err.find("30s or 30ms"));
}

TEST_F(command_line, wrong_usage_is_json_if_json_was_requested) {
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"acquire", "k", "--json", "--ttl", "30"},
          std::vector<std::string>{"status", "k", "--json", "--backend", "carrier-pigeon:"}}) {
        const auto result = syncguard(arguments);
        EXPECT_EQ(64, result.exit_code);
        const auto answer = json_of(result.out);
        EXPECT_EQ(false, answer.at("ok").as_bool());
        EXPECT_EQ("InvalidArgument", answer.at("error").at("code").as_string());
        EXPECT_FALSE(answer.at("error").at("message").as_string().empty());
        EXPECT_EQ("", result.err);
    }
}

TEST_F(command_line, an_unknown_backend_is_named_with_the_existing_ones) {
    const auto result = syncguard({"status", "k", "--backend", "carrier-pigeon:coop"});
    EXPECT_NE(std::string::npos, result.err.find("carrier-pigeon:")) << result.err;
    EXPECT_NE(std::string::npos, result.err.find("sqlite:")) << result.err;
}

TEST_F(command_line, passwords_in_backend_urls_are_never_printed) {
    const std::string url = "carrier-pigeon://user:hunter2@coop/1?x=hunter2";
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"status", "k", "--backend", url},
          std::vector<std::string>{"status", "k", "--backend=" + url},
          std::vector<std::string>{"status", "k", url},
          std::vector<std::string>{"status", "k", "--bakend=" + url},
          std::vector<std::string>{"status", "k", "--json", url}, std::vector<std::string>{url}}) {
        const auto result = syncguard(arguments);
        EXPECT_EQ(64, result.exit_code);
        EXPECT_EQ(std::string::npos, (result.out + result.err).find("hunter2"))
            << result.out << result.err;
    }
}

TEST_F(command_line, the_backend_option_overrides_the_environment) {
    (void)hold("k");
    const auto other = "sqlite:" + file("other.db").string();
    EXPECT_EQ(0, syncguard({"status", "k"}).exit_code);
    EXPECT_EQ(1, syncguard({"status", "k", "--backend", other}).exit_code);
}

TEST_F(command_line, without_a_backend_locks_are_in_the_users_state_folder) {
    const auto state = file("state");
    process unnamed(file("."),
                    {"env", "-u", "SYNCGUARD_BACKEND", SYNCGUARD_PROGRAM, "acquire", "k"},
                    {.environment = {{"XDG_STATE_HOME", state}}});
    EXPECT_EQ(0, unnamed.wait().exit_code);
    EXPECT_TRUE(std::filesystem::exists(state / "syncguard" / "locks.db"));
}

TEST_F(command_line, a_backend_that_is_empty_is_not_taken_for_the_default) {
    const auto state = file("state");
    const start_options empty{
        .environment = {{"SYNCGUARD_BACKEND", ""}, {"XDG_STATE_HOME", state}}};
    const auto result = syncguard({"acquire", "k"}, empty);
    EXPECT_EQ(64, result.exit_code);
    EXPECT_NE(std::string::npos, result.err.find("SYNCGUARD_BACKEND")) << result.err;
    EXPECT_EQ(64, syncguard({"acquire", "k", "--backend", ""}).exit_code);
    EXPECT_FALSE(std::filesystem::exists(state));
    EXPECT_EQ(0, syncguard({"acquire", "k", "--backend", "sqlite:"}, empty).exit_code);
}

TEST_F(command_line, keys_may_be_named_like_subcommands) {
    for (const auto* key : {"run", "status", "acquire"}) {
        (void)hold(key);
        EXPECT_EQ(0, syncguard({"status", key}).exit_code);
    }
}

TEST_F(command_line, a_relative_lock_file_in_a_removed_folder_is_refused_with_advice) {
    const auto gone = file("gone");
    std::filesystem::create_directory(gone);
    std::ofstream(file("script")) << "cd " << gone.string() << "; rmdir " << gone.string()
                                  << "; exec \"$@\"\n";
    process shell(file(""), {"sh", file("script").string(), SYNCGUARD_PROGRAM, "acquire", "k",
                             "--backend", "sqlite:locks.db"});
    const auto result = shell.wait();
    EXPECT_EQ(64, result.exit_code);
    EXPECT_NE(std::string::npos, result.err.find("absolute path")) << result.err;
}

TEST_F(command_line, a_backend_that_cannot_be_reached_has_its_own_exit_code) {
    const auto missing = "sqlite:" + file("no/such/folder/locks.db").string();
    const auto result = syncguard({"acquire", "k", "--backend", missing});
    EXPECT_EQ(69, result.exit_code);
    EXPECT_NE(std::string::npos, result.err.find("'k'")) << result.err;

    const auto json = json_of(syncguard({"acquire", "k", "--backend", missing, "--json"}).out);
    EXPECT_EQ(false, json.at("ok").as_bool());
    EXPECT_EQ("ServiceUnavailable", json.at("error").at("code").as_string());

    EXPECT_EQ(69, syncguard({"run", "k", "--backend", missing, "--", "true"}).exit_code);
}

}  // namespace

}  // namespace syncguard::cli::test
