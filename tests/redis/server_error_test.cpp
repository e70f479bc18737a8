/// The meaning of a Redis server's error replies.
#include "redis/server_error.hpp"

#include <gtest/gtest.h>

#include <string>

namespace syncguard::test {
namespace {

using redis::code_of;
using redis::had_no_effect;
using redis::may_be_one_operation;
using redis::may_have_failed_over;
using redis::to_lock_error;

struct meaning {
    std::string reply;
    error_code code;
    bool refusal;
};

const std::vector<meaning> meanings{
    {"NOAUTH Authentication required.", error_code::auth_failed, true},
    {"WRONGPASS invalid username-password pair or user is disabled.", error_code::auth_failed,
     true},
    {"NOPERM this user has no permissions to run the 'evalsha' command", error_code::auth_failed,
     true},
    {"ERR The user executing the script can't run this command or subcommand",
     error_code::auth_failed, true},
    {"ERR ACL failure in script: No permissions to access a key", error_code::auth_failed, true},
    {"DENIED Redis is running in protected mode", error_code::auth_failed, true},
    {"WRONGTYPE Operation against a key holding the wrong kind of value",
     error_code::invalid_argument, true},
    {"SYNTAX", error_code::invalid_argument, false},
    {"INVALID", error_code::invalid_argument, false},
    {"FOREIGNVALUE the key holds a value that is not a lock", error_code::invalid_argument, true},
    {"CROSSSLOT Keys in request don't hash to the same slot", error_code::invalid_argument, true},
    {"FENCEEND the fence counter has reached its end", error_code::internal, true},
    {"ERR value is not an integer or out of range", error_code::invalid_argument, true},
    {"ERR DB index is out of range", error_code::invalid_argument, true},
    {"READONLY You can't write against a read only replica.", error_code::service_unavailable,
     true},
    {"LOADING Redis is loading the dataset in memory", error_code::service_unavailable, true},
    {"MASTERDOWN Link with MASTER is down", error_code::service_unavailable, true},
    {"MISCONF Errors writing to the AOF file", error_code::service_unavailable, true},
    {"OOM command not allowed when used memory > 'maxmemory'.", error_code::service_unavailable,
     true},
    {"BUSY Redis is busy running a script.", error_code::service_unavailable, true},
    {"NOREPLICAS Not enough good replicas to write.", error_code::service_unavailable, true},
    {"TRYAGAIN Multiple keys request during rehashing of slot", error_code::service_unavailable,
     true},
    {"CLUSTERDOWN Hash slot not served", error_code::service_unavailable, true},
    {"MOVED 3999 127.0.0.1:6381", error_code::service_unavailable, true},
    {"ASK 3999 127.0.0.1:6381", error_code::service_unavailable, true},
    {"NOSCRIPT No matching script. Please use EVAL.", error_code::service_unavailable, true},
    {"ERR max number of clients reached", error_code::rate_limited, true},
    {"ERR max number of clients + cluster connections reached", error_code::rate_limited, true},
    {"", error_code::internal, false},
    {"ERR", error_code::internal, false},
    {"ERR wrong number of arguments", error_code::internal, false},
    {"ERR unknown command 'EVALSHA'", error_code::internal, false},
    {"SOMETHING new", error_code::internal, false},
    // Words that only begin like a known word.
    {"BUSYKEY Target key name already exists.", error_code::internal, false},
    {"BUSYGROUP Consumer Group name already exists", error_code::internal, false},
    {"ASKED", error_code::internal, false},
    {"oom", error_code::internal, false},
};

/// Errors inside the script, in the form of servers before 7.0 and in that of 7.0 and later.
struct place_of_error {
    std::string version;
    std::string before;
    std::string after;
};

const std::string in_script = "(call to f_5ab1e5ab1e5ab1e5ab1e5ab1e5ab1e5ab1e5ab1e)";

const std::vector<place_of_error> places{
    {"7.0, caught", "", ""},
    {"7.0, ended the script", "",
     " script: 5ab1e5ab1e5ab1e5ab1e5ab1e5ab1e5ab1e5ab1e, on @user_script:227."},
    {"5.0 and 6.2, caught", "@user_script: 227: -", "  "},
    {"5.0 and 6.2, ended the script",
     "ERR Error running script " + in_script + ": @user_script:227: @user_script: 227: -", "  "},
    {"5.0 and 6.2, raised by the script itself",
     "ERR Error running script " + in_script + ": @user_script:227: -", " "},
};

TEST(errors_of_a_redis_server, mean_the_same_inside_the_script_on_every_version) {
    const std::vector<std::string> errors{
        "READONLY You can't write against a read only replica.",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "MISCONF Redis is configured to save RDB snapshots, but it is currently not able to "
        "persist "
        "on disk. Commands that may modify the data set are disabled.",
        "MISCONF Errors writing to the AOF file: No space left on device",
        "NOREPLICAS Not enough good replicas to write.",
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "FOREIGNVALUE the key holds a value that is not a lock",
    };
    for (const auto& error : errors) {
        for (const auto& [version, before, after] : places) {
            const std::string reply = before + error + after;
            EXPECT_EQ(to_string(code_of(reply)), to_string(code_of(error)))
                << version << ": " << reply;
            EXPECT_TRUE(had_no_effect(reply)) << version << ": " << reply;
            const std::string message = to_lock_error(reply, "Redis").what();
            EXPECT_EQ(message.find("Redis answered " + error.substr(0, error.find(' '))), 0U)
                << version << ": " << message;
        }
    }
}

/// Errors without the first word, which they have since 7.0.
TEST(errors_of_a_redis_server, missing_permissions_of_a_script_are_named_on_every_version) {
    for (const std::string error :
         {"The user executing the script can't run this command or subcommand",
          "The user executing the script can't access at least one of the keys mentioned in the "
          "command arguments"}) {
        for (const auto& reply : {"@user_script: 14: " + error,
                                  "ERR Error running script " + in_script +
                                      ": @user_script:14: @user_script: 14: " + error,
                                  "ERR " + error}) {
            EXPECT_EQ(to_string(code_of(reply)), to_string(error_code::auth_failed)) << reply;
            EXPECT_TRUE(had_no_effect(reply)) << reply;
        }
    }
}

TEST(errors_of_a_redis_server, at_places_without_a_known_error_are_internal) {
    for (const std::string reply :
         {"@user_script: 227: -", "@user_script:", "@user_script: 227", "@user_script: 227: ",
          "ERR Error running script (call to f_", "@user_script: 227: attempt to index a nil value",
          "ERR Error running script (call to f_00): @user_script:1: READONLYish"}) {
        EXPECT_EQ(to_string(code_of(reply)), to_string(error_code::internal)) << reply;
        EXPECT_FALSE(had_no_effect(reply)) << reply;
        EXPECT_NO_THROW((void)to_lock_error(reply, "Redis"));
    }
}

TEST(errors_of_a_redis_server, have_the_meaning_of_the_specification) {
    for (const auto& [reply, code, refusal] : meanings) {
        EXPECT_EQ(to_string(code_of(reply)), to_string(code)) << reply;
        EXPECT_EQ(to_string(to_lock_error(reply, "Redis").code()), to_string(code)) << reply;
    }
}

TEST(errors_of_a_redis_server, show_whether_an_operation_may_have_been_executed) {
    for (const auto& [reply, code, refusal] : meanings)
        EXPECT_EQ(had_no_effect(reply), refusal) << reply;
}

TEST(errors_of_a_redis_server, may_be_about_one_key_of_many) {
    for (const char* word : {"NOPERM", "CROSSSLOT", "MOVED", "ASK", "TRYAGAIN"})
        EXPECT_TRUE(may_be_one_operation(std::string(word) + " and more")) << word;
    for (const char* word : {"NOAUTH", "OOM", "LOADING", "ERR", "", "BUSY", "READONLY", "ASKED"})
        EXPECT_FALSE(may_be_one_operation(std::string(word) + " and more")) << word;
}

TEST(errors_of_a_redis_server, show_whether_another_server_may_have_taken_over) {
    for (const char* word : {"READONLY", "MASTERDOWN", "LOADING", "NOREPLICAS", "CLUSTERDOWN"}) {
        EXPECT_TRUE(may_have_failed_over(std::string(word) + " and more")) << word;
        EXPECT_TRUE(may_have_failed_over("@user_script: 1: -" + std::string(word) + " and more"));
    }
    for (const char* word : {"NOAUTH", "OOM", "ERR", "", "BUSY", "MISCONF", "WRONGTYPE", "NOPERM"})
        EXPECT_FALSE(may_have_failed_over(std::string(word) + " and more")) << word;
}

TEST(errors_of_a_redis_server, are_reported_with_the_server_and_with_advice) {
    const std::string message = to_lock_error("READONLY You can't write", "Redis at h:1").what();
    EXPECT_EQ(message.find("Redis at h:1 answered READONLY You can't write: "), 0U) << message;
    EXPECT_NE(message.find("primary"), std::string::npos) << message;
}

TEST(errors_of_a_redis_server, answers_to_credentials_are_not_repeated) {
    const std::string message = to_lock_error("ERR odd word hunter2", "Redis", false).what();
    EXPECT_EQ(message, "Redis answered ERR");
}

/// A server that does not support a command repeats its arguments: keys and lock ids.
TEST(errors_of_a_redis_server, the_arguments_of_a_command_are_not_repeated) {
    for (const std::string reply :
         {"ERR unknown command 'EVALSHA', with args beginning with: 'f0' '1' 'secret:key' ",
          "ERR unknown command `EVALSHA`, with args beginning with: `f0`, `1`, `secret:key`, "}) {
        const std::string message = to_lock_error(reply, "Redis").what();
        EXPECT_EQ(message.find("secret"), std::string::npos) << message;
        EXPECT_NE(message.find("unknown command"), std::string::npos) << message;
    }
}

TEST(errors_of_a_redis_server, long_ones_are_cut) {
    EXPECT_LT(std::string(to_lock_error("ERR " + std::string(5'000, 'x'), "Redis").what()).size(),
              400U);
}

}  // namespace
}  // namespace syncguard::test
