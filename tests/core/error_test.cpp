#include "support/scripted_engine.hpp"

#include <syncguard/async.hpp>
#include <syncguard/error.hpp>
#include <syncguard/lock.hpp>
#include <syncguard/memory.hpp>

#include <boost/asio/use_future.hpp>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

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

/// Returns what `action` throws while the caller handles another exception.
std::optional<lock_error> thrown_while_handling_another(const std::function<void()>& action) {
    try {
        throw std::out_of_range("the caller's own");
    } catch (const std::out_of_range&) {
        try {
            action();
        } catch (const lock_error& failure) {
            return failure;
        }
    }
    return std::nullopt;
}

std::string text_of_cause(const lock_error& failure) {
    try {
        if (failure.cause()) std::rethrow_exception(failure.cause());
    } catch (const std::exception& cause) {
        return cause.what();
    }
    return "none";
}

any_backend failing_with(std::function<void()> fail) {
    return any_backend(std::make_shared<scripted_engine>(
        [fail = std::move(fail)](const request&, const call_limits&) -> outcome {
            fail();
            return {};
        }));
}

TEST(errors, an_exception_that_the_caller_handles_is_no_cause) {
    const memory::backend locks;
    const auto refused = thrown_while_handling_another([&] { (void)locks.acquire(""); });
    ASSERT_TRUE(refused);
    EXPECT_EQ(text_of_cause(*refused), "none");

    const auto unplugged =
        failing_with([] { throw lock_error(error_code::service_unavailable, "unplugged"); });
    const auto failed = thrown_while_handling_another([&] { (void)unplugged.acquire("k"); });
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->key(), "k");
    EXPECT_EQ(text_of_cause(*failed), "none");
}

TEST(errors, a_failure_of_unknown_kind_is_the_cause_of_its_error) {
    const auto broken = failing_with([] { throw std::runtime_error("broken"); });
    const auto failed = thrown_while_handling_another([&] { (void)broken.acquire("k"); });
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->code(), error_code::internal);
    EXPECT_EQ(text_of_cause(*failed), "broken");
}

TEST(errors, the_cause_set_by_an_engine_is_kept_in_every_api_form) {
    const auto broken = failing_with([] {
        throw lock_error(error_code::service_unavailable, "unplugged", {},
                         std::make_exception_ptr(std::runtime_error("the cable")));
    });
    const auto blocking = thrown_while_handling_another([&] { (void)broken.acquire("k"); });
    ASSERT_TRUE(blocking);
    EXPECT_EQ(blocking->key(), "k");
    EXPECT_EQ(text_of_cause(*blocking), "the cable");
    const auto asynchronous = thrown_while_handling_another(
        [&] { (void)async_acquire(broken, "k", {}, boost::asio::use_future).get(); });
    ASSERT_TRUE(asynchronous);
    EXPECT_EQ(asynchronous->key(), "k");
    EXPECT_EQ(text_of_cause(*asynchronous), "the cable");
}

TEST(errors, an_acquisition_timeout_names_the_last_failure_and_not_that_of_the_caller) {
    const auto silent = failing_with([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));  // longer than the caller waits
        throw lock_error(error_code::network_timeout, "no answer");
    });
    const auto failed = thrown_while_handling_another(
        [&] { lock(silent, "k", [] {}, {.timeout = std::chrono::milliseconds(1)}); });
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->code(), error_code::acquisition_timeout);
    EXPECT_EQ(text_of_cause(*failed), "no answer");
    const memory::backend locks;
    const auto holder = locks.acquire("k");
    const auto locked = thrown_while_handling_another(
        [&] { lock(locks, "k", [] {}, {.timeout = std::chrono::milliseconds(0)}); });
    ASSERT_TRUE(locked);
    EXPECT_EQ(locked->code(), error_code::acquisition_timeout);
    EXPECT_EQ(text_of_cause(*locked), "none");
}

static_assert(std::is_nothrow_copy_constructible_v<lock_error>);

}  // namespace
}  // namespace syncguard::test
