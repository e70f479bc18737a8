/// The errors of `lock()` if the lock ends before its function returns.
#include "support/eventually.hpp"
#include "support/expect_error.hpp"
#include "support/scripted_engine.hpp"

#include <syncguard/lock.hpp>
#include <syncguard/memory.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;

std::optional<lock_lost> expect_lost(const std::function<void()>& action) {
    try {
        action();
    } catch (const lock_lost& lost) {
        EXPECT_EQ(lost.code(), error_code::internal);
        EXPECT_EQ(lost.key(), "k");
        EXPECT_TRUE(lock_id::is_valid(lost.lock_id()));
        EXPECT_EQ(std::string(lost.what()).find(lost.lock_id()), std::string::npos);
        return lost;
    }
    ADD_FAILURE() << "nothing was thrown";
    return std::nullopt;
}

void outlast(held& held) {
    EXPECT_TRUE(eventually([&] { return !held.valid(); }));
}

TEST(lock_lost_test, a_function_that_outlasts_the_ttl_is_reported_to_the_caller_after_the_release) {
    const memory::backend locks;
    const auto lost = expect_lost([&] { lock(locks, "k", outlast, {.ttl = 20ms}); });
    ASSERT_TRUE(lost);
    EXPECT_EQ(lost->reason(), loss_reason::expired);
    EXPECT_FALSE(lost->cause());
    EXPECT_FALSE(locks.is_locked("k"));
}

TEST(lock_lost_test, a_loss_is_reported_even_if_the_function_returns_a_result) {
    const memory::backend locks;
    int target = 0;
    expect_lost([&] {
        (void)lock(locks, "k", [](held& held) { return outlast(held), 42; }, {.ttl = 20ms});
    });
    expect_lost([&] {
        (void)lock(locks, "k", [&](held& held) -> int& { return outlast(held), target; },
                   {.ttl = 20ms});
    });
}

TEST(lock_lost_test, an_exception_of_the_function_takes_precedence) {
    const memory::backend locks;
    EXPECT_THROW(lock(locks, "k",
                      [](held& held) {
                          outlast(held);
                          throw std::out_of_range("mine");
                      },
                      {.ttl = 20ms}),
                 std::out_of_range);
    EXPECT_FALSE(locks.is_locked("k"));
}

TEST(lock_lost_test, with_auto_extend_the_function_may_outlast_the_ttl) {
    const memory::backend locks;
    const int result =
        lock(locks, "k",
             [](held& held) {
                 const auto begin = lease_clock::now();
                 EXPECT_TRUE(eventually([&] { return lease_clock::now() > begin + 3s; }));
                 EXPECT_TRUE(held.valid());
                 EXPECT_FALSE(held.stop_token().stop_requested());
                 return 42;
             },
             {.ttl = 2s, .auto_extend = true});
    EXPECT_EQ(result, 42);
    EXPECT_FALSE(locks.is_locked("k"));
}

TEST(lock_lost_test, a_renewal_that_finds_the_lock_gone_stops_the_function) {
    const memory::backend locks;
    std::atomic<int> reports{0};
    const auto lost = expect_lost([&] {
        lock(locks, "k",
             [&](held& held) {
                 EXPECT_TRUE(locks.release(held.lock_id()).ok);
                 const auto stop = held.stop_token();
                 EXPECT_TRUE(eventually([&] { return stop.stop_requested(); }));
             },
             {.ttl = 3s, .auto_extend = true, .on_lost = [&](const loss& event) {
                  EXPECT_EQ(event.reason, loss_reason::not_held);
                  ++reports;
              }});
    });
    ASSERT_TRUE(lost);
    EXPECT_EQ(lost->reason(), loss_reason::not_held);
    EXPECT_EQ(reports, 1);
}

TEST(lock_lost_test, a_release_that_finds_the_lock_gone_before_its_time_is_a_loss) {
    const memory::backend plain;
    const memory::backend impatient({}, {.dispose_timeout = 10s});
    for (const auto& locks : {plain, impatient}) {
        const auto lost = expect_lost([&] {
            lock(locks, "k", [&](held& held) { EXPECT_TRUE(locks.release(held.lock_id()).ok); });
        });
        ASSERT_TRUE(lost);
        EXPECT_EQ(lost->reason(), loss_reason::not_held);
    }
}

TEST(lock_lost_test, a_release_that_is_only_late_is_no_loss) {
    const any_backend locks(
        std::make_shared<scripted_engine>([](const request& req, const call_limits&) {
            if (!std::holds_alternative<release_request>(req)) {
                return outcome::granted(unix_time(1h), fence::from_counter(1));
            }
            const auto begin = lease_clock::now();
            EXPECT_TRUE(eventually([&] { return lease_clock::now() > begin + 2s; }));
            return outcome::failed(failure_reason::expired);
        }));
    EXPECT_EQ(lock(locks, "k", [] { return 5; }, {.ttl = 2s}), 5);
}

TEST(lock_lost_test, names_the_last_failure_of_a_renewal_as_its_cause) {
    const any_backend locks(
        std::make_shared<scripted_engine>([](const request& req, const call_limits&) -> outcome {
            if (std::holds_alternative<extend_request>(req)) {
                throw lock_error(error_code::service_unavailable, "unplugged");
            }
            return outcome::granted(unix_time(1h), fence::from_counter(1));
        }));
    const auto lost =
        expect_lost([&] { lock(locks, "k", outlast, {.ttl = 300ms, .auto_extend = true}); });
    ASSERT_TRUE(lost && lost->cause());
    EXPECT_THROW(std::rethrow_exception(lost->cause()), lock_error);
}

TEST(lock_lost_test, results_of_every_kind_pass_through) {
    const memory::backend locks;
    const lock_options kept{.auto_extend = true};
    EXPECT_EQ(*lock(
                  locks, "k", [] { return std::make_unique<int>(7); }, kept),
              7);
    std::unique_ptr<int> target = std::make_unique<int>(8);
    auto&& moved = lock(
        locks, "k", [&]() -> std::unique_ptr<int>&& { return std::move(target); }, kept);
    static_assert(std::is_same_v<decltype(moved), std::unique_ptr<int>&&>);
    EXPECT_EQ(&moved, &target);
}

static_assert(std::is_nothrow_copy_constructible_v<lock_lost>);

}  // namespace
}  // namespace syncguard::test
