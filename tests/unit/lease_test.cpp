#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"
#include "support/scripted_engine.hpp"

#include <syncguard/lease.hpp>
#include <syncguard/memory.hpp>

#include <array>
#include <atomic>
#include <cstdlib>
#include <future>
#include <map>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;

TEST(lease, leaving_the_scope_releases) {
    const memory::backend locks;
    {
        auto lease = locks.acquire("k");
        ASSERT_TRUE(lease);
        EXPECT_TRUE(locks.is_locked("k"));
    }
    EXPECT_FALSE(locks.is_locked("k"));
}

TEST(lease, an_exception_releases) {
    const memory::backend locks;
    EXPECT_THROW(
        {
            auto lease = locks.acquire("k");
            throw std::runtime_error("in the middle of it");
        },
        std::runtime_error);
    EXPECT_FALSE(locks.is_locked("k"));
}

TEST(lease, moving_hands_the_lock_on_and_assigning_releases_the_former) {
    const memory::backend locks;
    auto a = *locks.acquire("a");
    auto b = *locks.acquire("b");
    EXPECT_TRUE(a.valid());
    a = std::move(b);
    EXPECT_FALSE(locks.is_locked("a"));
    EXPECT_TRUE(locks.is_locked("b"));
    EXPECT_EQ(a.key(), "b");
    EXPECT_FALSE(b.valid());  // NOLINT(bugprone-use-after-move): an empty lease says so
    EXPECT_EQ(b.remaining(), 0ms);
}

TEST(lease, it_may_outlive_its_backend) {
    auto lease = [] { return memory::backend().acquire("k"); }();
    ASSERT_TRUE(lease);
    EXPECT_TRUE(lease->extend().ok);
    EXPECT_TRUE(lease->release().ok);
}

TEST(lease, its_own_time_runs_out_whatever_the_store_says) {
    const memory::backend locks;
    auto lease = locks.acquire("k", {.ttl = 20ms});
    ASSERT_TRUE(lease);
    EXPECT_TRUE(eventually([&] { return !lease->valid(); }));
    EXPECT_EQ(lease->remaining(), 0ms);
    // The store grants another second to clocks; the lease does not rely on it.
    EXPECT_TRUE(locks.is_locked("k"));
}

TEST(lease, its_time_starts_before_the_request_is_sent) {
    constexpr auto slowness = 60ms;
    const any_backend slow(
        std::make_shared<scripted_engine>([&](const request&, const call_limits&) {
            std::this_thread::sleep_for(slowness);
            return outcome::granted(unix_time(1h), fence::from_counter(1));
        }));
    auto lease = slow.acquire("k", {.ttl = 10s});
    ASSERT_TRUE(lease);
    EXPECT_LE(lease->remaining(), 10s - slowness);
    ASSERT_TRUE(lease->extend({.ttl = 5s}).ok);
    EXPECT_LE(lease->remaining(), 5s - slowness);
}

TEST(lease, in_a_forked_child_it_is_invalid_and_releases_nothing) {
    const memory::backend locks;
    auto lease = locks.acquire("k");
    ASSERT_TRUE(lease);
    child_process child([&] {
        if (lease->valid() || lease->release().ok || lease->extend().ok) return 1;
        { auto gone = std::move(*lease); }
        // The child's copy of the store shows what the child did to it: nothing.
        return locks.is_locked("k") ? 0 : 2;
    });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_TRUE(lease->valid());
    EXPECT_TRUE(lease->release().ok);
}

/// A store that grants everything and fails to release.
std::shared_ptr<engine> failing_release(error_code code, const std::string& message) {
    return std::make_shared<scripted_engine>(
        [=](const request& what, const call_limits&) -> outcome {
            if (std::holds_alternative<release_request>(what)) throw lock_error(code, message);
            return outcome::granted(unix_time(1h), fence::from_counter(1));
        });
}

TEST(lease, a_release_that_fails_in_the_destructor_goes_to_the_backends_handler) {
    std::vector<std::string> told;
    const any_backend locks(
        failing_release(error_code::service_unavailable, "unplugged"),
        {.on_release_error = [&](const lock_error& error, const release_error_context& context) {
            told.push_back(std::string(to_string(error.code())) + "|" + error.what() + "|" +
                           std::string(context.key) + "|" + std::string(to_string(context.source)));
            throw std::runtime_error("handlers may throw");
        }});
    { auto lease = locks.acquire("k"); }
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told[0], "ServiceUnavailable|unplugged|k|disposal");
}

TEST(lease, a_handler_of_its_own_takes_precedence) {
    int backends = 0;
    int own = 0;
    const any_backend locks(failing_release(error_code::internal, "no"),
                            {.on_release_error = [&](const auto&, const auto&) { ++backends; }});
    {
        auto lease = locks.acquire("k");
        lease->on_release_error([&](const auto&, const auto&) { ++own; });
    }
    EXPECT_EQ(backends, 0);
    EXPECT_EQ(own, 1);
}

TEST(lease, after_a_failed_release_it_is_in_doubt_and_the_destructor_tries_again) {
    std::atomic<int> attempts{0};
    auto store =
        std::make_shared<scripted_engine>([&](const request& what, const call_limits&) -> outcome {
            if (!std::holds_alternative<release_request>(what)) {
                return outcome::granted(unix_time(1h), fence::from_counter(1));
            }
            if (++attempts == 1) throw lock_error(error_code::service_unavailable, "once");
            return outcome::done();
        });
    {
        auto lease = any_backend(store).acquire("k");
        expect_error(error_code::service_unavailable, [&] { (void)lease->release(); });
        EXPECT_FALSE(lease->valid());
    }
    EXPECT_EQ(attempts, 2);
}

TEST(lease, what_was_found_gone_stays_gone_although_a_release_fails_at_the_same_time) {
    std::promise<void> release_is_under_way;
    std::promise<void> let_it_fail;
    auto blocked = let_it_fail.get_future().share();
    const any_backend locks(std::make_shared<scripted_engine>(
        [&, blocked](const request& what, const call_limits&) -> outcome {
            if (std::holds_alternative<extend_request>(what)) {
                return outcome::failed(failure_reason::not_found);
            }
            if (std::holds_alternative<acquire_request>(what)) {
                return outcome::granted(unix_time(1h), fence::from_counter(1));
            }
            release_is_under_way.set_value();
            blocked.wait();
            throw lock_error(error_code::service_unavailable, "cut");
        }));
    auto lease = locks.acquire("k");
    auto releasing = std::async(std::launch::async, [&] {
        expect_error(error_code::service_unavailable, [&] { (void)lease->release(); });
    });
    release_is_under_way.get_future().get();
    lease->detach();
    let_it_fail.set_value();
    releasing.get();
    EXPECT_FALSE(lease->valid());
    EXPECT_FALSE(lease->release().ok);
}

TEST(lease, of_extensions_that_overlap_the_shorter_one_counts) {
    for (const bool long_one_ends_last : {false, true}) {
        std::map<milliseconds, std::promise<void>> begun;
        std::map<milliseconds, std::promise<void>> finish;
        for (const milliseconds ttl : {5s, 60s}) {
            begun[ttl];
            finish[ttl];
        }
        const any_backend locks(
            std::make_shared<scripted_engine>([&](const request& what, const call_limits&) {
                if (const auto* extend = std::get_if<extend_request>(&what)) {
                    begun.at(extend->ttl).set_value();
                    finish.at(extend->ttl).get_future().wait();
                    return outcome::extended(unix_time(1h));
                }
                return outcome::granted(unix_time(1h), fence::from_counter(1));
            }));
        auto lease = locks.acquire("k", {.ttl = 1s});
        const auto extend = [&](milliseconds ttl) {
            auto running = std::async(std::launch::async,
                                      [&, ttl] { EXPECT_TRUE(lease->extend({.ttl = ttl}).ok); });
            begun.at(ttl).get_future().get();
            return running;
        };
        auto brief = extend(5s);
        auto lengthy = extend(60s);
        for (const milliseconds ttl : long_one_ends_last ? std::array<milliseconds, 2>{5s, 60s}
                                                         : std::array<milliseconds, 2>{60s, 5s}) {
            finish.at(ttl).set_value();
            (ttl == 5s ? brief : lengthy).get();
        }
        EXPECT_GT(lease->remaining(), 1s);
        EXPECT_LE(lease->remaining(), 5s);
    }
}

TEST(lease, releasing_again_after_success_asks_nobody) {
    std::atomic<int> attempts{0};
    auto store = std::make_shared<scripted_engine>([&](const request& what, const call_limits&) {
        if (std::holds_alternative<release_request>(what)) {
            ++attempts;
            return outcome::done();
        }
        return outcome::granted(unix_time(1h), fence::from_counter(1));
    });
    {
        auto lease = any_backend(store).acquire("k");
        EXPECT_TRUE(lease->release().ok);
        EXPECT_FALSE(lease->release().ok);
    }
    EXPECT_EQ(attempts, 1);
}

TEST(lease, a_lock_that_was_gone_already_is_no_error) {
    int told = 0;
    const memory::backend locks({},
                                {.on_release_error = [&](const auto&, const auto&) { ++told; }});
    {
        auto lease = locks.acquire("k");
        ASSERT_TRUE(locks.release(lease->lock_id()).ok);
    }
    EXPECT_EQ(told, 0);
}

TEST(lease, the_destructor_waits_no_longer_than_dispose_timeout) {
    auto unblock = std::make_shared<std::promise<void>>();
    auto blocked = unblock->get_future().share();
    std::promise<error_code> told;
    auto store =
        std::make_shared<scripted_engine>([blocked](const request& what, const call_limits&) {
            if (std::holds_alternative<release_request>(what)) {
                blocked.wait();
                return outcome::done();
            }
            return outcome::granted(unix_time(1h), fence::from_counter(1));
        });
    const any_backend locks(store, {.on_release_error =
                                        [&](const lock_error& error, const release_error_context&) {
                                            told.set_value(error.code());
                                        },
                                    .dispose_timeout = 30ms});
    const auto began = std::chrono::steady_clock::now();
    { auto lease = locks.acquire("k"); }
    const auto waited = std::chrono::steady_clock::now() - began;
    EXPECT_GE(waited, 30ms);
    EXPECT_LT(waited, 5s);
    EXPECT_EQ(told.get_future().get(), error_code::network_timeout);
    unblock->set_value();
}

TEST(lease, the_longest_dispose_timeout_is_just_very_long) {
    int told = 0;
    const memory::backend locks({}, {.on_release_error = [&](const auto&, const auto&) { ++told; },
                                     .dispose_timeout = milliseconds::max()});
    { auto lease = locks.acquire("k"); }
    EXPECT_EQ(told, 0);
    EXPECT_FALSE(locks.is_locked("k"));
}

class default_release_handler : public testing::Test {
  protected:
    void SetUp() override {
        ::unsetenv("SYNCGUARD_ENV");
        ::unsetenv("SYNCGUARD_DEBUG");
    }
    void TearDown() override { SetUp(); }

    /// What a failing release prints by default. The store's message repeats key and id.
    static std::string printed() {
        auto store = std::make_shared<scripted_engine>(
            [](const request& what, const call_limits&) -> outcome {
                if (const auto* release = std::get_if<release_request>(&what)) {
                    throw lock_error(error_code::service_unavailable,
                                     "cannot release private-key with " + release->id.to_string());
                }
                return outcome::granted(unix_time(1h), fence::from_counter(1));
            });
        std::string id;
        testing::internal::CaptureStderr();
        {
            auto lease = any_backend(store).acquire("private-key");
            id = lease->lock_id().to_string();
        }
        const std::string text = testing::internal::GetCapturedStderr();
        EXPECT_EQ(text.find("private-key"), std::string::npos);
        EXPECT_EQ(text.find(id), std::string::npos);
        return text;
    }
};

TEST_F(default_release_handler, it_prints_one_line_without_key_and_id) {
    const std::string text = printed();
    EXPECT_NE(text.find("ServiceUnavailable"), std::string::npos);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST_F(default_release_handler, in_production_it_is_silent_unless_debugging) {
    ::setenv("SYNCGUARD_ENV", "production", 1);
    EXPECT_EQ(printed(), "");
    ::setenv("SYNCGUARD_DEBUG", "true", 1);
    EXPECT_NE(printed(), "");
}

}  // namespace
}  // namespace syncguard::test
