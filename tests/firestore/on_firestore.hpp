/// The fixture of the Firestore tests: each test has its own project on the emulator.
#pragma once

#include "support/begun_handlers.hpp"
#include "support/eventually.hpp"
#include "support/firestore_emulator.hpp"
#include "support/manual_clock.hpp"

#include <syncguard/firestore.hpp>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace syncguard::test {

using namespace std::chrono_literals;

/// Records a backend's warnings. The handlers may be called after the backend and this object have
/// been destroyed.
class warnings {
  public:
    [[nodiscard]] warning_handler handler() {
        return [log = log_](std::string_view message) {
            const std::lock_guard guard(log->mutex);
            log->messages.emplace_back(message);
        };
    }
    [[nodiscard]] std::vector<std::string> all() const {
        await_begun_handlers();
        const std::lock_guard guard(log_->mutex);
        return log_->messages;
    }
    /// Waits until there are `count` warnings.
    [[nodiscard]] std::vector<std::string> first(std::size_t count) const {
        (void)eventually([&] { return all().size() >= count; });
        return all();
    }

  private:
    struct state {
        std::mutex mutex;
        std::vector<std::string> messages;
    };
    std::shared_ptr<state> log_ = std::make_shared<state>();
};

class on_firestore : public testing::Test {
  protected:
    void SetUp() override {
        if (!shared_firestore_emulator()) GTEST_SKIP() << no_emulator;
        project_ = std::make_unique<firestore_project>();
    }

    /// A new client without cached documents.
    [[nodiscard]] firestore::backend open(firestore::options options = {}) {
        options.project = project_->name();
        options.emulator_host = project_->emulator_host();
        options.clock = clock_.as_wall_clock();
        return firestore::backend(std::move(options), {.operation_timeout = 20s,
                                                       .on_release_error = {},
                                                       .dispose_timeout = {},
                                                       .on_warning = warnings_.handler()});
    }

    std::unique_ptr<firestore_project> project_;
    manual_clock clock_;
    warnings warnings_;
};

/// A lock's fields in the form of the REST interface.
inline std::string lock_fields(const std::string& id, unix_time expires_at, const std::string& key,
                               const std::string& fence = "000000000000005") {
    const auto ms = std::to_string(expires_at.time_since_epoch().count());
    return R"({"lockId":{"stringValue":")" + id + R"("},"expiresAtMs":{"integerValue":")" + ms +
           R"("},"acquiredAtMs":{"integerValue":"1"},"key":{"stringValue":")" + key +
           R"("},"fence":{"stringValue":")" + fence + R"("}})";
}

}  // namespace syncguard::test
