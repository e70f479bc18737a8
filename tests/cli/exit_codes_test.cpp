/// The exit code of each failure.
#include "cli/exit_codes.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace syncguard::cli {

namespace {

TEST(exit_codes, show_the_kind_of_a_failure) {
    EXPECT_EQ(69, exit_code::of_error(error_code::service_unavailable));
    EXPECT_EQ(69, exit_code::of_error(error_code::network_timeout));
    EXPECT_EQ(69, exit_code::of_error(error_code::rate_limited));
    EXPECT_EQ(77, exit_code::of_error(error_code::auth_failed));
    EXPECT_EQ(64, exit_code::of_error(error_code::invalid_argument));
    EXPECT_EQ(75, exit_code::of_error(error_code::acquisition_timeout));
    EXPECT_EQ(70, exit_code::of_error(error_code::internal));
}

TEST(exit_codes, follow_the_shell_for_commands_that_do_not_start) {
    EXPECT_EQ(127, exit_code::of_exec_failure(ENOENT));
    EXPECT_EQ(126, exit_code::of_exec_failure(EACCES));
    EXPECT_EQ(126, exit_code::of_exec_failure(ENOEXEC));
    EXPECT_EQ(143, exit_code::of_signal(15));
}

TEST(exit_codes, are_all_in_both_help_texts) {
    for (const auto* code : {"\n  64 ", "\n  69 ", "\n  70 ", "\n  75 ", "\n  77 ", "\n  79 ",
                             "\n  126 ", "\n  127 ", "\n  128+N ", "\n  other "}) {
        EXPECT_NE(std::string::npos, exit_code::help_for_program().find(code)) << code;
        EXPECT_NE(std::string::npos, exit_code::help_for_run().find(code)) << code;
    }
}

}  // namespace

}  // namespace syncguard::cli
