/// Authentication at a Redis server: right, wrong and changed passwords, and servers without RESP3.
#include "redis/redis_fault.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"

#include <syncguard/connect.hpp>

#include <string>
#include <vector>

namespace syncguard::test {
namespace {

const std::string secret = "correct-horse-battery";
const std::string wrong_secret = "incorrect-zebra-staple";
const std::string locker = "a-user-with-a-name-of-some-length";

class redis_login : public testing::TestWithParam<api_form_kind> {
  protected:
    [[nodiscard]] static any_backend open(const redis_server& server, const std::string& user,
                                          const std::string& password, unsigned database = 0) {
        return redis::backend({.host = "127.0.0.1",
                               .port = server.port(),
                               .username = user,
                               .password = password,
                               .database = database},
                              quiet());
    }

    void expect_it_works(const any_backend& locks) {
        auto lease = form_->acquire(locks, "k", {.ttl = 60s}, {});
        ASSERT_TRUE(lease);
        EXPECT_TRUE(form_->extend(*lease, {.ttl = 60s}));
        EXPECT_TRUE(form_->lookup(locks, key_lookup{"k"}, {}));
        EXPECT_TRUE(form_->release(*lease));
    }

    /// The message names the server and contains no secret.
    void expect_refusal(const any_backend& locks) {
        const auto failure = expect_error(error_code::auth_failed,
                                          [&] { (void)form_->acquire(locks, "k", {}, {}); });
        if (!failure) return;
        const std::string text = failure->what();
        EXPECT_NE(text.find("127.0.0.1:"), std::string::npos) << text;
        EXPECT_EQ(text.find(secret), std::string::npos) << text;
        EXPECT_EQ(text.find(wrong_secret), std::string::npos) << text;
    }

    std::unique_ptr<api_form> form_ = GetParam().make();
};

TEST_P(redis_login, the_right_password_is_accepted_and_a_wrong_or_missing_one_is_not) {
    for (const bool speaks_resp3 : {true, false}) {
        redis_server_options options{.arguments = {"--requirepass", secret}, .password = secret};
        if (!speaks_resp3)
            options.arguments.insert(options.arguments.end(), {"--rename-command", "HELLO", ""});
        const redis_server server(options);
        expect_it_works(open(server, "", secret));
        expect_it_works(open(server, "default", secret, 3));
        expect_refusal(open(server, "", wrong_secret));
        expect_refusal(open(server, "nobody", secret));
        expect_refusal(open(server, "", ""));
    }
}

TEST_P(redis_login, a_user_with_only_the_required_permissions_can_lock) {
    const redis_server server;
    const std::vector<std::string> rules = {
        "ACL",          "SETUSER", locker,  "on",       ">" + secret, "resetkeys",
        "~syncguard:*", "-@all",   "+eval", "+evalsha", "+time",      "+get",
        "+mget",        "+set",    "+del",  "+incr",    "+hello",     "+select"};
    ASSERT_EQ(server.command(rules).text, "OK");
    expect_it_works(open(server, locker, secret));
    expect_it_works(open(server, locker, secret, 2));
    expect_refusal(open(server, locker, wrong_secret));
    ASSERT_EQ(server.command({"ACL", "SETUSER", locker, "-set"}).text, "OK");
    expect_refusal(open(server, locker, secret));
    ASSERT_EQ(server.command({"ACL", "SETUSER", locker, "+set", "-evalsha"}).text, "OK");
    expect_refusal(open(server, locker, secret));
    ASSERT_EQ(server.command({"ACL", "SETUSER", locker, "+evalsha", "resetkeys", "~other:*"}).text,
              "OK");
    expect_refusal(open(server, locker, secret));
}

TEST_P(redis_login, a_changed_password_is_used_with_the_next_connection) {
    const redis_server server;
    ASSERT_EQ(server.command({"ACL", "SETUSER", "u", "on", ">" + secret, "~*", "+@all"}).text,
              "OK");
    const auto locks = open(server, "u", secret);
    expect_it_works(locks);
    ASSERT_EQ(server.command({"ACL", "SETUSER", "u", "resetpass", ">" + wrong_secret}).text, "OK");
    expect_it_works(locks);
    server.command({"CLIENT", "KILL", "USER", "u"});
    // The connection may end during a call.
    EXPECT_TRUE(eventually([&] {
        try {
            (void)form_->is_locked(locks, "k", {});
            return false;
        } catch (const lock_error& failure) {
            return failure.code() == error_code::auth_failed;
        }
    }));
    expect_refusal(locks);
    expect_refusal(locks);
    ASSERT_EQ(server.command({"ACL", "SETUSER", "u", "resetpass", ">" + secret}).text, "OK");
    expect_it_works(locks);
}

TEST_P(redis_login, a_server_without_hello_is_used_with_resp2) {
    const redis_server server({.arguments = {"--rename-command", "HELLO", ""}});
    expect_it_works(open(server, "", ""));
    const auto elsewhere = open(server, "", "", 5);
    auto lease = form_->acquire(elsewhere, "k", {.ttl = 60s}, {});
    ASSERT_TRUE(lease);
    EXPECT_FALSE(holds_lock(server, "k"));
    EXPECT_EQ(clients_of(server), 1U);
    expect_it_works(open(server, "", ""));
}

TEST_P(redis_login, a_database_that_does_not_exist_is_an_error_of_the_caller) {
    const redis_server server;
    const auto locks = open(server, "", "", 16);
    expect_error(error_code::invalid_argument, [&] { (void)form_->acquire(locks, "k", {}, {}); });
}

TEST_P(redis_login, too_many_clients_are_reported) {
    const redis_server server({.arguments = {"--maxclients", "2"}});
    const redis_connection first(server.port());
    redis_connection second(server.port());
    ASSERT_EQ(second.command({"PING"}).text, "PONG");
    const auto locks = open(server, "", "");
    for (int i = 0; i < 4; ++i) {
        expect_error(error_code::rate_limited, [&] { (void)form_->acquire(locks, "k", {}, {}); });
    }
}

INSTANTIATE_TEST_SUITE_P(all, redis_login, blocking_and_async(), name_of_api_form);

TEST(redis_url_secrets, are_not_repeated_when_a_url_is_wrong) {
    for (const std::string& url : {
             "redis://user:" + secret + "@",
             "redis://user:" + secret + "@host:port",
             "redis://user:" + secret + "@host:99999",
             "redis://user:" + secret + "@host/words",
             "redis://user:" + secret + "@host?unknown=1",
             "redis://user:" + secret + "@host?database=" + secret,
             "redis://user:" + secret + "%zz@host",
             "redis://user:" + secret + "@[::1",
             "redis:user:" + secret + "@host",
             "rediss://user:" + secret + "@host?ca_file=/no/such/file",
             "redis+unix://user:" + secret + "@relative/path",
             "redis://user:" + secret + "/with/slashes@host",
             "redis://user:" + secret + "?with#signs@host",
         }) {
        const auto failure =
            expect_error(error_code::invalid_argument, [&] { (void)connect(url); });
        ASSERT_TRUE(failure) << url;
        EXPECT_EQ(std::string(failure->what()).find(secret), std::string::npos) << failure->what();
    }
}

}  // namespace
}  // namespace syncguard::test
