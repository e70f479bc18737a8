/// Redis and fork(): the child has a connection of its own and none of its parent's locks.
#include "redis/redis_fault.hpp"
#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/fork_in_connect.hpp"

#include <syncguard/async.hpp>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

class redis_fork : public testing::Test {
  protected:
    redis_server server_;
    fault_proxy proxy_{server_.port()};
    any_backend locks_ = redis::backend({.host = "127.0.0.1", .port = proxy_.port()}, quiet());
};

TEST_F(redis_fork, a_child_shares_the_store_and_not_the_connection) {
    auto lease = locks_.acquire("held", {.ttl = 60s});
    ASSERT_TRUE(lease);
    for (int round = 1; round <= 5; ++round) {
        child_process child([&] {
            if (!locks_.is_locked("held")) return 1;
            if (locks_.acquire("held")) return 2;
            auto own = locks_.acquire("child", {.ttl = 60s});
            if (!own || !own->extend() || !own->release()) return 3;
            // Asio's system executor has threads, which a child does not inherit.
            boost::asio::io_context io;
            auto call = async_acquire(locks_, "child", {.ttl = 60s},
                                      boost::asio::bind_executor(io, boost::asio::use_future));
            io.run();
            auto other = call.get();
            if (!other || !other->release()) return 4;
            return 0;
        });
        for (int i = 0; i < 50; ++i) {
            auto own = locks_.acquire("parent");
            ASSERT_TRUE(own);
            EXPECT_EQ(own->fence(),
                      fence::from_counter(static_cast<std::uint64_t>(50 * (round - 1) + i + 1)));
        }
        EXPECT_EQ(child.wait(), 0);
        EXPECT_TRUE(lease->extend({.ttl = 60s}));
        // One more connection for each child.
        EXPECT_EQ(proxy_.connections(), static_cast<std::uint64_t>(1 + round));
    }
    EXPECT_TRUE(lease->release());
}

TEST_F(redis_fork, a_child_neither_releases_nor_extends_inherited_locks) {
    auto lease = locks_.acquire("held", {.ttl = 60s});
    ASSERT_TRUE(lease);
    child_process child([&] {
        if (lease->valid() || lease->extend() || lease->release()) return 1;
        // Destroyed as at the end of a scope.
        { const auto gone = std::move(lease); }
        return holds_lock(server_, "held") ? 0 : 2;
    });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_TRUE(lease->valid());
    EXPECT_TRUE(lease->extend({.ttl = 60s}));
    EXPECT_TRUE(lease->release());
}

TEST_F(redis_fork, while_other_threads_lead_disturbs_neither_side) {
    std::vector<std::jthread> busy;
    for (int i = 0; i < 4; ++i) {
        busy.emplace_back([this, i](const std::stop_token& stop) {
            const std::string key = "thread:" + std::to_string(i);
            while (!stop.stop_requested()) {
                auto lease = i % 2 == 0
                                 ? locks_.acquire(key)
                                 : async_acquire(locks_, key, {}, boost::asio::use_future).get();
                ASSERT_TRUE(lease);
                ASSERT_TRUE(lease->release());
            }
        });
    }
    for (int round = 0; round < 10; ++round) {
        child_process child([&] {
            for (int i = 0; i < 5; ++i) {
                auto own = locks_.acquire("child", {.ttl = 60s});
                if (!own || !own->release()) return 1;
            }
            return 0;
        });
        EXPECT_EQ(child.wait(), 0);
    }
}

TEST_F(redis_fork, in_the_middle_of_a_call_leaves_its_answer_to_the_parent) {
    ASSERT_FALSE(locks_.is_locked("warm-up"));
    proxy_.stall(direction::to_client);
    auto pending = async_acquire(locks_, "k", {.ttl = 60s}, boost::asio::use_future);
    EXPECT_TRUE(eventually([&] { return holds_lock(server_, "k"); }));
    child_process child([&] {
        const any_backend mine(locks_);
        try {
            (void)mine.is_locked("k", {.timeout = 100ms});
            return 1;
        } catch (const lock_error&) {
        }
        return 0;
    });
    EXPECT_EQ(child.wait(), 0);
    proxy_.resume(direction::to_client);
    auto lease = pending.get();
    ASSERT_TRUE(lease);
    EXPECT_TRUE(lease->release());
}

TEST_F(redis_fork, a_child_that_keeps_running_does_not_keep_its_parents_connection_open) {
    ASSERT_FALSE(locks_.is_locked("warm-up"));
    EXPECT_EQ(clients_of(server_), 1U);
    const child_process living_on([] { return ::pause(); });
    locks_ = redis::backend({.host = "127.0.0.1", .port = server_.port()}, quiet());
    EXPECT_TRUE(eventually([&] { return clients_of(server_) == 0; }, cleanup_time));
}

TEST_F(redis_fork, nor_one_that_its_parent_was_draining) {
    ASSERT_FALSE(locks_.is_locked("warm-up"));
    proxy_.delay(direction::to_client, 60s);
    EXPECT_THROW((void)locks_.is_locked("k", {.timeout = 50ms}), lock_error);
    proxy_.delay(direction::to_client, 0ms);
    ASSERT_FALSE(locks_.is_locked("k"));
    EXPECT_EQ(clients_of(server_), 2U);
    const child_process living_on([] { return ::pause(); });
    locks_ = redis::backend({.host = "127.0.0.1", .port = server_.port()}, quiet());
    EXPECT_TRUE(eventually([&] { return clients_of(server_) == 0; }, 2s)) << clients_of(server_);
}

TEST_F(redis_fork, between_the_creation_of_a_socket_and_its_registration_leaves_the_child_none) {
    locks_ = redis::backend({.host = "127.0.0.1", .port = server_.port()}, quiet());
    {
        fork_in_connect forking;
        ASSERT_FALSE(locks_.is_locked("k"));
        forking.wait_for_child();
        ASSERT_FALSE(locks_.is_locked("k"));
        locks_ = redis::backend({.host = "127.0.0.1", .port = server_.port()}, quiet());
        EXPECT_TRUE(eventually([&] { return clients_of(server_) == 0; }, 2s));
    }
}

TEST_F(redis_fork, a_child_may_end_normally) {
    auto lease = locks_.acquire("held", {.ttl = 60s});
    ASSERT_TRUE(lease);
    child_process child([&] {
        {
            const any_backend inherited = std::move(locks_);
            (void)inherited.is_locked("held");
        }
        return 0;
    });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_TRUE(lease->release());
}

}  // namespace
}  // namespace syncguard::test
