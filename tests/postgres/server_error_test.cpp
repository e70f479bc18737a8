/// The meaning of SQLSTATEs and libpq's messages.
#include "postgres/server_error.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace syncguard::test {
namespace {

using postgres::retry_action;
using postgres::retry_action_for;

TEST(postgres_server_error, has_the_code_of_its_class) {
    const std::vector<std::pair<std::string, error_code>> codes = {
        {"28P01", error_code::auth_failed},
        {"28000", error_code::auth_failed},
        {"42501", error_code::auth_failed},
        {"22021", error_code::invalid_argument},
        {"22001", error_code::invalid_argument},
        {"23505", error_code::invalid_argument},
        {"42P01", error_code::invalid_argument},
        {"40001", error_code::service_unavailable},
        {"40P01", error_code::service_unavailable},
        {"57P01", error_code::service_unavailable},
        {"57P03", error_code::service_unavailable},
        {"08006", error_code::service_unavailable},
        {"53100", error_code::service_unavailable},
        {"53300", error_code::rate_limited},
        {"53200", error_code::service_unavailable},
        {"54000", error_code::service_unavailable},
        {"25006", error_code::service_unavailable},
        {"57014", error_code::network_timeout},
        {"42601", error_code::internal},
        {"XX000", error_code::internal},
    };
    for (const auto& [sqlstate, code] : codes)
        EXPECT_EQ(to_string(postgres::code_of(sqlstate)), to_string(code)) << sqlstate;
}

TEST(postgres_server_error, is_retried_only_if_other_clients_caused_it) {
    EXPECT_EQ(retry_action_for("40001"), retry_action::retry);
    EXPECT_EQ(retry_action_for("40P01"), retry_action::retry);
    EXPECT_EQ(retry_action_for("53200"), retry_action::retry);
    EXPECT_EQ(retry_action_for("54000"), retry_action::retry);
    EXPECT_EQ(retry_action_for("25006"), retry_action::reconnect);
    EXPECT_EQ(retry_action_for("26000"), retry_action::retry_unprepared);
    EXPECT_EQ(retry_action_for("42P05"), retry_action::retry_unprepared);
    for (const std::string final : {"23505", "42P01", "42501", "57014", "53300", "XX000"})
        EXPECT_EQ(retry_action_for(final), retry_action::fail) << final;
}

TEST(postgres_server_error, does_not_prove_failure_if_a_pooler_may_have_made_it) {
    for (const std::string of_poolers : {"08006", "08P01", "57P01", "58000"})
        EXPECT_EQ(retry_action_for(of_poolers), retry_action::outcome_unknown) << of_poolers;
}

TEST(postgres_server_error, quotes_the_server_without_values) {
    const auto said = [](const std::string& sqlstate) {
        return std::string(
            postgres::to_lock_error({.sqlstate = sqlstate, .message = "secret"}, "S").what());
    };
    EXPECT_NE(said("42P01").find("secret"), std::string::npos);
    EXPECT_EQ(said("22021").find("secret"), std::string::npos);
    EXPECT_EQ(said("23505").find("secret"), std::string::npos);
}

TEST(postgres_server_error, is_found_in_libpqs_message_about_a_failed_connection) {
    const auto of = [](const std::string& text) {
        return postgres::to_connection_error(text, "S").code();
    };
    const std::string begin = "connection to server at \"127.0.0.1\", port 5432 failed: ";
    EXPECT_EQ(of(begin + "FATAL:  28P01\n"), error_code::auth_failed);
    EXPECT_EQ(of(begin + "FATAL:  53300\n"), error_code::rate_limited);
    EXPECT_EQ(of(begin + "FATAL:  57P03\n"), error_code::service_unavailable);
    EXPECT_EQ(of(begin + "FATAL:  3D000\n"), error_code::invalid_argument);
    EXPECT_EQ(of(begin + "fe_sendauth: no password supplied\n"), error_code::auth_failed);
    EXPECT_EQ(of(begin + "SSL error: certificate verify failed\n"), error_code::auth_failed);
    EXPECT_EQ(of(begin + "session is read-only\n"), error_code::service_unavailable);
    EXPECT_EQ(of(begin + "Connection refused\n\tIs the server running on that host?\n"),
              error_code::service_unavailable);
}

}  // namespace
}  // namespace syncguard::test
