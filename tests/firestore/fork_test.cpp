/// Firestore and fork(): the child has connections of its own and none of its parent's locks.
#include "support/child_process.hpp"
#include "support/firestore_emulator.hpp"

#include <syncguard/firestore.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;

class firestore_fork : public testing::Test {
  protected:
    void SetUp() override {
        if (!shared_firestore_emulator()) GTEST_SKIP() << no_emulator;
        project_ = std::make_unique<firestore_project>();
        locks_ = std::make_unique<firestore::backend>(
            firestore::options{.project = project_->name(),
                               .emulator_host = project_->emulator_host()},
            backend_options{.operation_timeout = 30s});
    }
    std::unique_ptr<firestore_project> project_;
    std::unique_ptr<firestore::backend> locks_;
};

TEST_F(firestore_fork, a_child_shares_the_store_and_not_the_connections) {
    auto lease = locks_->acquire("held", {.ttl = 60s});
    ASSERT_TRUE(lease);
    child_process child([&] {
        if (!locks_->is_locked("held")) return 1;
        if (locks_->acquire("held")) return 2;
        for (int i = 0; i < 10; ++i) {
            auto own = locks_->acquire("child", {.ttl = 60s});
            if (!own || !own->extend().ok || !own->release().ok) return 3;
        }
        return 0;
    });
    for (int i = 0; i < 10; ++i) {
        auto own = locks_->acquire("parent", {.ttl = 60s});
        ASSERT_TRUE(own);
        EXPECT_EQ(own->fence(), fence::from_counter(static_cast<std::uint64_t>(i + 1)));
        EXPECT_TRUE(own->release().ok);
    }
    EXPECT_EQ(child.wait(), 0);
    EXPECT_TRUE(lease->extend({.ttl = 60s}).ok);
    EXPECT_TRUE(lease->release().ok);
}

TEST_F(firestore_fork, a_child_neither_releases_nor_extends_inherited_locks) {
    auto lease = locks_->acquire("held", {.ttl = 60s});
    ASSERT_TRUE(lease);
    child_process child([&] {
        if (lease->valid() || lease->release().ok || lease->extend({.ttl = 60s}).ok) return 1;
        // Destroyed as at the end of a scope.
        { const auto gone = std::move(lease); }
        return 0;
    });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_TRUE(locks_->is_locked("held"));
    EXPECT_TRUE(lease->release().ok);
}

TEST_F(firestore_fork, while_others_are_in_calls_disturbs_neither_side) {
    std::vector<std::jthread> busy;
    for (int i = 0; i < 4; ++i) {
        busy.emplace_back([this, i](const std::stop_token& stop) {
            const std::string key = "thread:" + std::to_string(i);
            while (!stop.stop_requested()) {
                auto lease = locks_->acquire(key, {.ttl = 60s});
                ASSERT_TRUE(lease);
                ASSERT_TRUE(lease->release().ok);
            }
        });
    }
    for (int round = 0; round < 5; ++round) {
        child_process child([&] {
            auto own = locks_->acquire("child", {.ttl = 60s});
            return own && own->release().ok ? 0 : 1;
        });
        EXPECT_EQ(child.wait(), 0);
    }
}

}  // namespace
}  // namespace syncguard::test
