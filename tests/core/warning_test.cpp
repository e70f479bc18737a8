/// Warnings reach their handler before the program destroys what the handler uses.
#include "core/warning.hpp"

#include "core/lease/pending_release.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <thread>

namespace syncguard {
namespace {

using namespace std::chrono_literals;

/// Ends the process with 1 if a handler uses it after its end, or with 2 if no warning came before.
class recorder {
  public:
    ~recorder() {
        if (!has_warning_) ::_exit(2);
        is_alive_ = false;
    }
    void note(std::string_view /*message*/) {
        std::this_thread::sleep_for(50ms);  // the end of the program must wait for this
        if (!is_alive_) ::_exit(1);
        has_warning_ = true;
    }

  private:
    std::atomic<bool> is_alive_{true};
    std::atomic<bool> has_warning_{false};
};

/// Warns in its destructor, as a backend whose last release is answered then.
class static_backend {
  public:
    explicit static_backend(recorder& warnings) : warnings_(warnings) {}
    ~static_backend() {
        warn_later([&warnings = warnings_](std::string_view text) { warnings.note(text); }, "late");
    }

  private:
    recorder& warnings_;
};

TEST(warnings, of_static_objects_are_awaited_before_older_static_objects_are_destroyed) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto run = [] {
        static recorder warnings;
        static const static_backend backend(warnings);
        std::optional<pending_release> first_use(std::in_place);
        first_use.reset();
        std::exit(0);
    };
    EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace syncguard
