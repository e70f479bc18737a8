/// Asserts that an action fails with a given error code.
#pragma once

#include <syncguard/error.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <optional>

namespace syncguard::test {

/// Returns the `lock_error` that `action` throws. Fails the test if it throws none, or one with
/// another code.
inline std::optional<lock_error> expect_error(error_code code,
                                              const std::function<void()>& action) {
    try {
        action();
    } catch (const lock_error& failure) {
        EXPECT_EQ(to_string(failure.code()), to_string(code)) << failure.what();
        return failure;
    }
    ADD_FAILURE() << "expected " << to_string(code) << ", but nothing was thrown";
    return std::nullopt;
}

}  // namespace syncguard::test
