#include "support/expect_error.hpp"

#include <syncguard/connect.hpp>

#include <string>

namespace syncguard::test {
namespace {

TEST(connecting, an_engine_is_found_by_its_scheme_in_any_case) {
    EXPECT_EQ(connect("memory:").capabilities().backend, "memory");
    EXPECT_EQ(connect("MEMORY:").capabilities().backend, "memory");
}

std::string refusal(const std::string& url) {
    const auto failure = expect_error(error_code::invalid_argument, [&] { (void)connect(url); });
    return failure ? failure->what() : "";
}

TEST(connecting, the_error_names_the_unknown_part) {
    EXPECT_NE(refusal("etcd://host").find("'etcd:'"), std::string::npos);
    EXPECT_NE(refusal("memory:?a=b").find("'a'"), std::string::npos);
    EXPECT_NE(refusal("memory:?flag").find("name=value"), std::string::npos);
    EXPECT_NE(refusal("memory:?a=1&a=2").find("'a'"), std::string::npos);
    EXPECT_NE(refusal("memory:?a=%2").find("%25"), std::string::npos);
    EXPECT_NE(refusal("REDIS-LIKE://host").find("'redis-like:'"), std::string::npos);
    EXPECT_NE(refusal("memory:name").find("memory:"), std::string::npos);
}

TEST(connecting, an_option_without_a_value_is_not_repeated) {
    for (const char* text : {"memory:?secret", "memory:?a=my&secret"})
        EXPECT_EQ(refusal(text).find("secret"), std::string::npos);
}

TEST(connecting, text_that_is_not_a_url_is_not_repeated) {
    for (const char* text : {"", "my secret password", ":x", "/locks.db"}) {
        const std::string message = refusal(text);
        EXPECT_NE(message.find("sqlite:"), std::string::npos);
        EXPECT_EQ(message.find("secret"), std::string::npos);
    }
}

}  // namespace
}  // namespace syncguard::test
