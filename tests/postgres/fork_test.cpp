/// PostgreSQL and fork(): the child has connections of its own and none of its parent's locks.
#include "postgres/postgres_fault.hpp"
#include "support/child_process.hpp"
#include "support/fork_in_connect.hpp"

#include <optional>
#include <string>

namespace syncguard::test {
namespace {

using postgres_fork = postgres_fault;

TEST_F(postgres_fork, a_child_shares_the_store_and_not_the_connections) {
    const auto locks = open();
    auto lease = locks.acquire("held", {.ttl = 60s});
    ASSERT_TRUE(lease);
    for (int round = 1; round <= 3; ++round) {
        child_process child([&] {
            if (!locks.is_locked("held")) return 1;
            auto own = locks.acquire("child", {.ttl = 60s});
            if (!own || !own->extend() || !own->release()) return 2;
            return 0;
        });
        for (int i = 0; i < 20; ++i) {
            auto own = locks.acquire("parent");
            ASSERT_TRUE(own);
            EXPECT_EQ(own->fence(),
                      fence::from_counter(static_cast<std::uint64_t>(20 * (round - 1) + i + 1)));
        }
        EXPECT_EQ(child.wait(), 0);
        EXPECT_TRUE(lease->extend({.ttl = 60s}));
    }
    EXPECT_TRUE(lease->release());
}

TEST_F(postgres_fork, a_child_neither_releases_nor_extends_inherited_locks) {
    const auto locks = open();
    auto lease = locks.acquire("held", {.ttl = 60s});
    ASSERT_TRUE(lease);
    child_process child([&] {
        if (lease->valid() || lease->extend() || lease->release()) return 1;
        // Destroyed as at the end of a scope.
        { const auto gone = std::move(lease); }
        return holds_lock(server(), "held") ? 0 : 2;
    });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_TRUE(lease->release());
}

TEST_F(postgres_fork, while_libpq_connects_leaves_the_child_no_socket) {
    auto locks = std::make_optional(open());
    {
        fork_in_connect forking;
        ASSERT_FALSE(locks->is_locked("k"));
        forking.wait_for_child();
        ASSERT_FALSE(locks->is_locked("k"));
        EXPECT_GE(proxy_.open_connections(), 1U);
        locks.reset();
        EXPECT_TRUE(eventually([&] { return proxy_.open_connections() == 0; }, 2s));
    }
}

}  // namespace
}  // namespace syncguard::test
