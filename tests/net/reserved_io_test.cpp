/// While leases are renewed, the engine performs its I/O on its own threads.
#include "support/expect_error.hpp"
#include "support/scripted_engine.hpp"

#include <syncguard/backend.hpp>
#include <syncguard/lease.hpp>
#include <syncguard/telemetry.hpp>

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <system_error>
#include <utility>
#include <variant>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;

/// Grants everything.
class reservable_engine : public scripted_engine {
  public:
    reservable_engine()
        : scripted_engine([](const request& req, const call_limits&) {
              if (std::holds_alternative<acquire_request>(req)) {
                  return outcome::granted(unix_time(24h), fence::from_counter(1));
              }
              return outcome::done();
          }) {}

    [[nodiscard]] std::shared_ptr<const void> reserve_io_thread() override {
        if (!has_threads) throw std::system_error(EAGAIN, std::generic_category());
        return reservation_;
    }
    [[nodiscard]] long reservations() const { return reservation_.use_count() - 1; }

    bool has_threads = true;

  private:
    std::shared_ptr<const int> reservation_ = std::make_shared<const int>(0);
};

class reserved_io : public testing::Test {
  protected:
    lease<any_capabilities> acquire() { return *locks_.acquire("k", {.ttl = 60s}); }

    std::shared_ptr<reservable_engine> engine_ = std::make_shared<reservable_engine>();
    any_backend locks_ = any_backend(engine_);
};

TEST_F(reserved_io, lasts_from_keep_alive_to_the_release) {
    auto first = acquire();
    auto second = acquire();
    EXPECT_EQ(engine_->reservations(), 0);
    first.keep_alive();
    first.keep_alive({.ttl = 30s});
    EXPECT_EQ(engine_->reservations(), 1);
    second.keep_alive();
    EXPECT_EQ(engine_->reservations(), 2);
    EXPECT_TRUE(first.release());
    EXPECT_EQ(engine_->reservations(), 1);
    second.detach();
    EXPECT_EQ(engine_->reservations(), 0);
}

TEST_F(reserved_io, ends_with_the_lease) {
    {
        auto lease = acquire();
        lease.keep_alive();
        EXPECT_EQ(engine_->reservations(), 1);
    }
    EXPECT_EQ(engine_->reservations(), 0);
}

TEST_F(reserved_io, does_not_begin_for_a_lease_that_is_only_watched_or_released) {
    auto watched = acquire();
    watched.on_lost([](const loss&) {});
    EXPECT_EQ(engine_->reservations(), 0);
    auto released = acquire();
    EXPECT_TRUE(released.release());
    released.keep_alive();
    EXPECT_EQ(engine_->reservations(), 0);
}

TEST_F(reserved_io, that_cannot_start_makes_keep_alive_fail) {
    engine_->has_threads = false;
    auto lease = acquire();
    expect_error(error_code::internal, [&] { lease.keep_alive(); });
    EXPECT_TRUE(lease.valid());
}

TEST_F(reserved_io, reaches_the_engine_behind_telemetry) {
    const auto observed = with_telemetry(locks_, {.on_event = [](const lock_event&) {}});
    auto lease = *observed.acquire("k", {.ttl = 60s});
    lease.keep_alive();
    EXPECT_EQ(engine_->reservations(), 1);
    EXPECT_TRUE(lease.release());
    EXPECT_EQ(engine_->reservations(), 0);
}

}  // namespace
}  // namespace syncguard::test
