#include <syncguard/error.hpp>

#include <gtest/gtest.h>

#include <stdexcept>

namespace syncguard::test {
namespace {

TEST(errors, codes_are_spelled_as_specified) {
    EXPECT_EQ(to_string(error_code::service_unavailable), "ServiceUnavailable");
    EXPECT_EQ(to_string(error_code::auth_failed), "AuthFailed");
    EXPECT_EQ(to_string(error_code::invalid_argument), "InvalidArgument");
    EXPECT_EQ(to_string(error_code::rate_limited), "RateLimited");
    EXPECT_EQ(to_string(error_code::network_timeout), "NetworkTimeout");
    EXPECT_EQ(to_string(error_code::acquisition_timeout), "AcquisitionTimeout");
    EXPECT_EQ(to_string(error_code::aborted), "Aborted");
    EXPECT_EQ(to_string(error_code::internal), "Internal");
}

TEST(errors, what_is_being_handled_becomes_the_cause) {
    try {
        try {
            throw std::out_of_range("the root of it");
        } catch (...) {
            throw lock_error(error_code::internal, "it failed", {.key = "k", .lock_id = "id"});
        }
    } catch (const lock_error& failure) {
        EXPECT_STREQ(failure.what(), "it failed");
        EXPECT_EQ(failure.key(), "k");
        EXPECT_EQ(failure.lock_id(), "id");
        ASSERT_TRUE(failure.cause());
        EXPECT_THROW(std::rethrow_exception(failure.cause()), std::out_of_range);
    }
}

TEST(errors, one_that_comes_out_of_the_blue_has_no_cause) {
    const lock_error failure(error_code::aborted, "stopped");
    EXPECT_FALSE(failure.cause());
}

static_assert(std::is_nothrow_copy_constructible_v<lock_error>);

}  // namespace
}  // namespace syncguard::test
