/// URLs and options: valid ones, and ones refused before any request is sent.
#include "support/expect_error.hpp"

#include <syncguard/connect.hpp>
#include <syncguard/firestore.hpp>

#include <gtest/gtest.h>

#include <cstdlib>

namespace syncguard::firestore {
namespace {

using namespace std::chrono_literals;
using test::expect_error;

TEST(a_url, names_a_project_and_optionally_a_database) {
    EXPECT_EQ(parse_url("firestore://my-project").project, "my-project");
    EXPECT_EQ(parse_url("firestore://my-project").database, "(default)");
    EXPECT_EQ(parse_url("firestore://my-project/").database, "(default)");
    EXPECT_EQ(parse_url("firestore://my-project/orders").database, "orders");
    EXPECT_EQ(parse_url("FIRESTORE://my-project/%28default%29").database, "(default)");
}

TEST(a_url, carries_every_option) {
    const auto read = parse_url(
        "firestore://p?locks_collection=l&fence_counters_collection=f&endpoint=https://x:1&"
        "ca_file=/ca&credentials_file=/c.json&connect_timeout_ms=7&most_connections=3&"
        "cleanup_in_is_locked=true&on_clock_skew=warn");
    EXPECT_EQ(read.locks_collection, "l");
    EXPECT_EQ(read.fence_counters_collection, "f");
    EXPECT_EQ(read.endpoint, "https://x:1");
    EXPECT_EQ(read.ca_file, "/ca");
    EXPECT_EQ(read.credentials_file, "/c.json");
    EXPECT_EQ(read.connect_timeout, 7ms);
    EXPECT_EQ(read.most_connections, 3U);
    EXPECT_TRUE(read.cleanup_in_is_locked);
    EXPECT_EQ(read.on_clock_skew, on_clock_skew::warn);
    EXPECT_EQ(parse_url("firestore://p?emulator_host=h:1").emulator_host, "h:1");
}

TEST(a_url, that_is_wrong_is_refused_without_being_repeated) {
    for (const char* const url :
         {"firestore:", "firestore:secret", "firestore://", "firestore:///secret", "redis://secret",
          "firestore://secret?colour=secret", "firestore://secret?connect_timeout_ms=0",
          "firestore://p?connect_timeout_ms=secret", "firestore://secret?most_connections=65",
          "firestore://p?cleanup_in_is_locked=secret", "firestore://p?on_clock_skew=secret"}) {
        const auto failure =
            expect_error(error_code::invalid_argument, [&] { (void)parse_url(url); });
        ASSERT_TRUE(failure) << url;
        EXPECT_EQ(std::string(failure->what()).find("secret"), std::string::npos) << url;
    }
}

TEST(options, that_cannot_be_used_are_refused_at_construction) {
    const auto refused = [](options store) {
        if (store.endpoint.empty() && store.emulator_host.empty())
            store.emulator_host = "127.0.0.1:1";
        expect_error(error_code::invalid_argument, [&] { const backend opened(store); });
    };
    refused({});
    refused({.project = "a/b"});
    refused({.project = "a b"});
    refused({.project = "p", .database = ""});
    refused({.project = "p", .database = "a/b"});
    refused({.project = "p", .locks_collection = "x", .fence_counters_collection = "x"});
    refused({.project = "p", .locks_collection = "x/y"});
    refused({.project = "p", .emulator_host = "nothing"});
    refused({.project = "p", .emulator_host = "h:0"});
    refused({.project = "p", .emulator_host = "h:1", .endpoint = "https://x"});
    refused({.project = "p", .endpoint = "ftp://x"});
    refused({.project = "p", .endpoint = "https://x/path"});
    refused({.project = "p", .endpoint = "http://elsewhere.example"});
    refused({.project = "p", .connect_timeout = 0ms});
    refused({.project = "p", .most_connections = 0});
    refused({.project = "p", .endpoint = "https://x", .ca_file = "/nowhere"});
}

TEST(connect, knows_the_scheme) {
    const auto locks = connect("firestore://p?emulator_host=127.0.0.1:1");
    EXPECT_EQ(locks.capabilities().backend, "firestore");
    EXPECT_EQ(locks.capabilities().time_authority, time_authority::client);
}

TEST(the_environment, names_an_emulator) {
    ::setenv("FIRESTORE_EMULATOR_HOST", "127.0.0.1:1", 1);
    const backend locks({.project = "p"});
    const auto failure =
        expect_error(error_code::service_unavailable, [&] { (void)locks.is_locked("k"); });
    ASSERT_TRUE(failure);
    EXPECT_NE(std::string(failure->what()).find("emulator at 127.0.0.1:1 (project p)"),
              std::string::npos)
        << failure->what();
    ::unsetenv("FIRESTORE_EMULATOR_HOST");
}

}  // namespace
}  // namespace syncguard::firestore
