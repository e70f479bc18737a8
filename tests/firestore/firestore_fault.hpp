/// The fixture of the Firestore fault tests: a project on the emulator, a fault proxy in front of
/// it, and an API form.
#pragma once

#include "contract/api_form.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"
#include "support/firestore_emulator.hpp"
#include "support/firestore_proxy.hpp"

#include <syncguard/firestore.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

namespace syncguard::test {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

/// How long a call may take beyond its deadline, because other tests use the processor too.
inline constexpr milliseconds margin{2'000};

inline backend_options quiet(milliseconds operation_timeout) {
    return {.operation_timeout = operation_timeout,
            .on_release_error = [](const lock_error&, const release_error_context&) {},
            .dispose_timeout = {},
            .on_warning = {}};
}

class firestore_fault : public testing::TestWithParam<api_form_kind> {
  protected:
    void SetUp() override {
        if (!shared_firestore_emulator()) GTEST_SKIP() << no_emulator;
        project_ = std::make_unique<firestore_project>();
        proxy_ = std::make_unique<firestore_proxy>(project_->port());
    }
    [[nodiscard]] any_backend open(milliseconds operation_timeout = 20s) const {
        return firestore::backend({.project = project_->name(), .emulator_host = proxy_->host()},
                                  quiet(operation_timeout));
    }
    /// Connects without the proxy.
    [[nodiscard]] any_backend open_directly() const {
        return firestore::backend(
            {.project = project_->name(), .emulator_host = project_->emulator_host()}, quiet(20s));
    }
    any_result acquire(const any_backend& locks, const std::string& key) const {
        return form_->acquire(locks, key, {.ttl = 60s}, {});
    }
    [[nodiscard]] bool is_stored(const std::string& key) const {
        return project_->fields("locks", key).has_value();
    }
    [[nodiscard]] std::string counter_of(const std::string& key) const {
        const auto fields = project_->fields("fence_counters", "fence:" + key);
        if (!fields) return "none";
        return std::string(fields->at("fence").at("stringValue").as_string());
    }

    std::unique_ptr<firestore_project> project_;
    std::unique_ptr<firestore_proxy> proxy_;
    std::unique_ptr<api_form> form_ = GetParam().make();
};

/// The blocking API form and an asynchronous one.
inline auto blocking_and_async() {
    const auto forms = all_api_forms();
    return testing::Values(forms.at(0), forms.at(1));
}

inline std::string name_of_api_form(const testing::TestParamInfo<api_form_kind>& test) {
    return test.param.name;
}

}  // namespace syncguard::test
