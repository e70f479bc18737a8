/// The fixture of the contract suite: every test runs over every engine, through every API form.
#pragma once

#include "contract/api_form.hpp"
#include "contract/engine_fixture.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>

namespace syncguard::test {

using namespace std::chrono_literals;

class contract : public testing::TestWithParam<std::tuple<engine_kind, api_form_kind>> {
  protected:
    any_result acquire(std::string_view key, milliseconds ttl = 30s, std::stop_token stop = {}) {
        return form_->acquire(locks_, key, {.ttl = ttl}, std::move(stop));
    }
    /// Acquires a lock and detaches the lease: the lock stays.
    syncguard::lock_id take(std::string_view key, milliseconds ttl = 30s) {
        auto result = acquire(key, ttl);
        if (!result) throw std::runtime_error("the key is locked already");
        return result->detach();
    }
    release_result release(std::string_view id, std::stop_token stop = {}) {
        return form_->release(locks_, id, std::move(stop));
    }
    extend_result extend(std::string_view id, milliseconds ttl = 30s, std::stop_token stop = {}) {
        return form_->extend(locks_, id, {.ttl = ttl}, std::move(stop));
    }
    bool is_locked(std::string_view key, std::stop_token stop = {}) {
        return form_->is_locked(locks_, key, std::move(stop));
    }
    std::optional<any_info> lookup_key(std::string_view key, std::stop_token stop = {}) {
        return form_->lookup(locks_, key_lookup{key}, std::move(stop));
    }
    std::optional<any_info> lookup_id(std::string_view id, std::stop_token stop = {}) {
        return form_->lookup(locks_, ownership_lookup{id}, std::move(stop));
    }

    std::unique_ptr<engine_fixture> fixture_ = std::get<0>(GetParam()).make();
    std::unique_ptr<api_form> form_ = std::get<1>(GetParam()).make();
    any_backend locks_ = fixture_->open();
};

/// Names a test after its engine and, if it has one, its API form.
inline std::string name_of(
    const testing::TestParamInfo<std::tuple<engine_kind, api_form_kind>>& test) {
    return std::get<0>(test.param).name + "_" + std::get<1>(test.param).name;
}
inline std::string name_of(const testing::TestParamInfo<engine_kind>& test) {
    return test.param.name;
}

/// Runs the tests of a fixture derived from `contract` over every engine, through every API form.
#define SYNCGUARD_RUN_CONTRACT(fixture)                                        \
    INSTANTIATE_TEST_SUITE_P(                                                  \
        all, fixture,                                                          \
        testing::Combine(testing::ValuesIn(syncguard::test::all_engines()),    \
                         testing::ValuesIn(syncguard::test::all_api_forms())), \
        [](const auto& test) { return syncguard::test::name_of(test); })

/// The same, with a fixture that adds nothing to `contract`.
#define SYNCGUARD_CONTRACT(fixture)                      \
    class fixture : public syncguard::test::contract {}; \
    SYNCGUARD_RUN_CONTRACT(fixture)

/// Runs the tests of a fixture parameterised by `engine_kind` over the given kinds.
#define SYNCGUARD_RUN_ON_ENGINES(fixture, kinds)                     \
    INSTANTIATE_TEST_SUITE_P(all, fixture, testing::ValuesIn(kinds), \
                             [](const auto& test) { return syncguard::test::name_of(test); })

}  // namespace syncguard::test
