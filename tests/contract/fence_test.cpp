/// Fencing tokens: greater with every grant of a key, as numbers and as text.
#include "contract/contract.hpp"
#include "support/begun_handlers.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"

#include <syncguard/key.hpp>

#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace syncguard::test {
namespace {

SYNCGUARD_CONTRACT(fences);

TEST_P(fences, the_first_is_one_and_each_next_one_is_greater_also_as_text) {
    fence last;
    for (int i = 0; i < 20; ++i) {
        auto lease = acquire("k", 10s);
        ASSERT_TRUE(lease);
        if (i == 0) {
            EXPECT_EQ(lease->fence().str(), "000000000000001");
        }
        EXPECT_GT(lease->fence(), last);
        EXPECT_GT(lease->fence().to_string(), last.to_string());
        last = lease->fence();
        ASSERT_TRUE(form_->release(*lease).ok);
    }
}

TEST_P(fences, continue_after_expiry) {
    const auto before = acquire("k", 10s);
    ASSERT_TRUE(before);
    fixture_->advance(10s + fixture_->grace());
    const auto after = acquire("k", 10s);
    ASSERT_TRUE(after);
    EXPECT_GT(after->fence(), before->fence());
}

class lost_counters : public contract {
  protected:
    /// Leaves an expired lock on "k" with the fence 5, without its counter. False if the store
    /// cannot.
    bool lose_counter() {
        for (int i = 0; i < 4; ++i)
            (void)release(take("k"));
        (void)take("k", 10s);
        if (!fixture_->delete_fence_counter("k")) return false;
        fixture_->advance(10s + time_tolerance);
        return true;
    }
};

SYNCGUARD_RUN_CONTRACT(lost_counters);

TEST_P(lost_counters, the_next_fence_is_greater_than_that_of_the_expired_lock) {
    if (!lose_counter()) return;
    for (const char* expected : {"000000000000006", "000000000000007"}) {
        auto lease = acquire("k");
        ASSERT_TRUE(lease);
        EXPECT_EQ(lease->fence().str(), expected);
        ASSERT_TRUE(form_->release(*lease).ok);
    }
}

TEST_P(lost_counters, a_counter_that_was_set_back_is_raised_to_the_fence_of_the_expired_lock) {
    if (!lose_counter()) return;
    fixture_->set_fence_counter("k", 2);
    auto lease = acquire("k");
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->fence().str(), "000000000000006");
}

TEST_P(lost_counters, a_counter_beyond_the_fence_of_the_expired_lock_is_kept) {
    if (!lose_counter()) return;
    fixture_->set_fence_counter("k", 40);
    auto lease = acquire("k");
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->fence().str(), "000000000000041");
}

TEST_P(fences, each_key_has_its_own_counter) {
    for (int i = 0; i < 5; ++i)
        ASSERT_TRUE(release(take("busy")).ok);
    auto other = acquire("quiet");
    ASSERT_TRUE(other);
    EXPECT_EQ(other->fence().str(), "000000000000001");
}

TEST_P(fences, a_contended_attempt_uses_none) {
    auto held = acquire("k");
    ASSERT_TRUE(held);
    for (int i = 0; i < 10; ++i)
        ASSERT_FALSE(acquire("k"));
    ASSERT_TRUE(form_->release(*held).ok);
    auto next = acquire("k");
    ASSERT_TRUE(next);
    EXPECT_EQ(next->fence().str(), "000000000000002");
}

TEST_P(fences, extending_keeps_the_token) {
    auto lease = acquire("k");
    ASSERT_TRUE(lease);
    ASSERT_TRUE(extend(lease->lock_id()).ok);
    EXPECT_EQ(lookup_key("k")->fence, lease->fence());
}

class fence_limits : public contract {
  protected:
    /// A handle on a store whose counter for "k" is `counter`; collects warnings.
    any_backend with_counter(std::uint64_t counter) {
        fixture_->set_fence_counter("k", counter);
        return fixture_->open({.on_warning = [log = log_](std::string_view message) {
            const std::lock_guard guard(log->mutex);
            log->warnings.emplace_back(message);
        }});
    }
    [[nodiscard]] std::vector<std::string> warnings() const {
        await_begun_handlers();
        const std::lock_guard guard(log_->mutex);
        return log_->warnings;
    }

    // A new store: that of the base class has been opened already.
    void SetUp() override { fixture_ = std::get<0>(GetParam()).make(); }

    /// Handlers may be called after the test has ended.
    struct warning_log {
        std::mutex mutex;
        std::vector<std::string> warnings;
    };
    std::shared_ptr<warning_log> log_ = std::make_shared<warning_log>();
};

SYNCGUARD_RUN_CONTRACT(fence_limits);

TEST_P(fence_limits, up_to_the_warning_limit_there_is_no_warning) {
    const any_backend locks = with_counter(fence::warn_counter - 1);
    ASSERT_TRUE(form_->acquire(locks, "k", {}, {}));
    EXPECT_TRUE(warnings().empty());
}

TEST_P(fence_limits, beyond_the_warning_limit_each_grant_warns_without_naming_the_key) {
    const any_backend locks = with_counter(fence::warn_counter);
    auto lease = form_->acquire(locks, "k", {}, {});
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->fence().str(), "090000000000001");
    ASSERT_TRUE(eventually([&] { return !warnings().empty(); }));
    const auto messages = warnings();
    ASSERT_EQ(messages.size(), 1U);
    EXPECT_NE(messages[0].find("090000000000001"), std::string::npos);
    EXPECT_NE(messages[0].find(hash_key("k")), std::string::npos);
    EXPECT_EQ(messages[0].find(lease->lock_id().str()), std::string::npos);
}

TEST_P(fence_limits, a_warning_handler_may_wait_until_the_call_has_returned) {
    fixture_->set_fence_counter("k", fence::warn_counter);
    std::promise<void> returned;
    const auto has_returned = std::make_shared<std::promise<bool>>();
    const any_backend locks = fixture_->open(
        {.on_warning = [has_returned, after = returned.get_future().share()](std::string_view) {
            has_returned->set_value(after.wait_for(5s) == std::future_status::ready);
        }});
    EXPECT_TRUE(form_->acquire(locks, "k", {}, {}));
    returned.set_value();
    EXPECT_TRUE(has_returned->get_future().get());
}

TEST_P(fence_limits, the_last_token_is_granted) {
    const any_backend locks = with_counter(fence::max_counter - 1);
    auto lease = form_->acquire(locks, "k", {}, {});
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->fence().str(), "900000000000000");
}

TEST_P(fence_limits, beyond_the_last_token_acquisition_fails_and_leaves_nothing_locked) {
    const any_backend locks = with_counter(fence::max_counter);
    for (int i = 0; i < 3; ++i) {
        expect_error(error_code::internal, [&] { (void)form_->acquire(locks, "k", {}, {}); });
        EXPECT_FALSE(form_->is_locked(locks, "k", {}));
        EXPECT_FALSE(form_->lookup(locks, key_lookup{"k"}, {}));
    }
}

}  // namespace
}  // namespace syncguard::test
