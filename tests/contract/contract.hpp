/// The fixture of the contract suite: every test runs over every engine, through every door.
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

class contract : public testing::TestWithParam<std::tuple<store_kind, door_kind>> {
  protected:
    any_result acquire(std::string_view key, milliseconds ttl = 30s, std::stop_token stop = {}) {
        return door_->acquire(locks_, key, {.ttl = ttl}, std::move(stop));
    }
    /// Acquires and lets go of the lease: the lock stays.
    syncguard::lock_id take(std::string_view key, milliseconds ttl = 30s) {
        auto result = acquire(key, ttl);
        if (!result) throw std::runtime_error("the key is locked already");
        return result->detach();
    }
    release_result release(std::string_view id, std::stop_token stop = {}) {
        return door_->release(locks_, id, std::move(stop));
    }
    extend_result extend(std::string_view id, milliseconds ttl = 30s, std::stop_token stop = {}) {
        return door_->extend(locks_, id, {.ttl = ttl}, std::move(stop));
    }
    bool is_locked(std::string_view key, std::stop_token stop = {}) {
        return door_->is_locked(locks_, key, std::move(stop));
    }
    std::optional<any_info> lookup_key(std::string_view key, std::stop_token stop = {}) {
        return door_->lookup(locks_, key_lookup{key}, std::move(stop));
    }
    std::optional<any_info> lookup_id(std::string_view id, std::stop_token stop = {}) {
        return door_->lookup(locks_, ownership_lookup{id}, std::move(stop));
    }

    std::unique_ptr<store> store_ = std::get<0>(GetParam()).make();
    std::unique_ptr<door> door_ = std::get<1>(GetParam()).make();
    any_backend locks_ = store_->open();
};

/// Names a test after its engine, and its door where it has one.
inline std::string name_of(const testing::TestParamInfo<std::tuple<store_kind, door_kind>>& test) {
    return std::get<0>(test.param).name + "_" + std::get<1>(test.param).name;
}
inline std::string name_of(const testing::TestParamInfo<store_kind>& test) {
    return test.param.name;
}

/// Runs the tests of a fixture derived from `contract` over every engine, through every door.
#define SYNCGUARD_RUN_CONTRACT(fixture)                                                         \
    INSTANTIATE_TEST_SUITE_P(all, fixture,                                                      \
                             testing::Combine(testing::ValuesIn(syncguard::test::all_stores()), \
                                              testing::ValuesIn(syncguard::test::all_doors())), \
                             [](const auto& test) { return syncguard::test::name_of(test); })

/// The same with a fixture that adds nothing.
#define SYNCGUARD_CONTRACT(fixture)                      \
    class fixture : public syncguard::test::contract {}; \
    SYNCGUARD_RUN_CONTRACT(fixture)

/// Runs the tests of a fixture parameterised by `store_kind` over the given kinds.
#define SYNCGUARD_RUN_ON_STORES(fixture, kinds)                      \
    INSTANTIATE_TEST_SUITE_P(all, fixture, testing::ValuesIn(kinds), \
                             [](const auto& test) { return syncguard::test::name_of(test); })

}  // namespace syncguard::test
