/// `syncguard release` and `syncguard extend`.
#include "cli/workspace.hpp"

#include <chrono>

namespace syncguard::cli::test {

namespace {

/// Well formed, never granted. One id in 64 begins with a dash, and must not be parsed as an
/// option.
constexpr auto unknown_id = "-AAAAAAAAAAAAAAAAAAAAA";

class release_command : public command_test {};
class extend_command : public command_test {};

TEST_F(release_command, frees_the_lock_once) {
    const auto id = hold("k");
    const auto first = syncguard({"release", id});
    EXPECT_EQ(0, first.exit_code);
    EXPECT_EQ("released\n", first.out);
    EXPECT_EQ(1, syncguard({"status", "k"}).exit_code);

    const auto second = syncguard({"release", id});
    EXPECT_EQ(1, second.exit_code);
    EXPECT_EQ("", second.out);
    EXPECT_NE(std::string::npos, second.err.find("not held")) << second.err;
}

TEST_F(release_command, and_all_others_do_not_print_lock_ids_when_they_fail) {
    const auto id = hold("k");
    EXPECT_EQ(0, syncguard({"release", id}).exit_code);
    const std::string unusable = "sqlite:" + file("missing/locks.db").string();
    for (const std::vector<std::string>& arguments :
         std::vector<std::vector<std::string>>{{"release", id},
                                               {"release", id, "--json"},
                                               {"release", id, "--backend", unusable},
                                               {"release", id, "--backend", unusable, "--json"},
                                               {"release", id, id},
                                               {"release", "k", "--" + id},
                                               {"extend", id},
                                               {"extend", id, "--backend", unusable},
                                               {"extend", id, "--ttl", id},
                                               {"lookup", "--id", id},
                                               {"lookup", "--id", id, "--backend", unusable},
                                               {"lookup", "--id", id, id},
                                               {"status", "k", id},
                                               {"acquire", "k", id},
                                               {id}}) {
        const auto result = syncguard(arguments);
        EXPECT_NE(0, result.exit_code);
        EXPECT_NE("", result.err + result.out);
        EXPECT_EQ(std::string::npos, (result.err + result.out).find(id))
            << result.err << result.out;
    }
}

TEST_F(release_command, answers_in_json) {
    const auto id = hold("k");
    EXPECT_EQ("{\"ok\":true}\n", syncguard({"release", id, "--json"}).out);
    const auto again = syncguard({"release", id, "--json"});
    EXPECT_EQ(1, again.exit_code);
    EXPECT_EQ("{\"ok\":false}\n", again.out);
}

TEST_F(release_command, takes_lock_ids_that_begin_with_a_dash) {
    EXPECT_EQ(1, syncguard({"release", unknown_id}).exit_code);
    EXPECT_EQ(1, syncguard({"release", unknown_id, "--json"}).exit_code);
    EXPECT_EQ(1, syncguard({"release", "--", unknown_id}).exit_code);
    const auto backend = "--backend=sqlite:" + database().string();
    EXPECT_EQ(1, syncguard({"release", backend, unknown_id}).exit_code);
    EXPECT_EQ(1, syncguard({"extend", "--ttl", "5s", unknown_id}).exit_code);
    EXPECT_EQ(1, syncguard({"lookup", "--id", unknown_id}).exit_code);
}

TEST_F(extend_command, sets_the_ttl_from_now) {
    const auto id = hold("k", "30s");
    const auto before = std::chrono::system_clock::now().time_since_epoch();
    const auto result = syncguard({"extend", id, "--ttl", "10m", "--json"});
    EXPECT_EQ(0, result.exit_code);
    const auto answer = json_of(result.out);
    EXPECT_EQ(2U, answer.size());
    EXPECT_EQ(true, answer.at("ok").as_bool());
    const milliseconds expires(answer.at("expiresAtMs").as_int64());
    EXPECT_GE(expires, before + std::chrono::minutes{10} - milliseconds{1});

    EXPECT_TRUE(syncguard({"extend", id}).out.starts_with("expires: "));
}

TEST_F(extend_command, does_not_revive_a_lock_that_is_gone) {
    const auto id = hold("k");
    EXPECT_EQ(0, syncguard({"release", id}).exit_code);
    EXPECT_EQ(1, syncguard({"extend", id}).exit_code);
    EXPECT_EQ("{\"ok\":false}\n", syncguard({"extend", id, "--json"}).out);
    EXPECT_EQ(1, syncguard({"status", "k"}).exit_code);
}

}  // namespace

}  // namespace syncguard::cli::test
