/// Failover to another server under the same name, while connections to the former one stay open.
#include "redis/redis_fault.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"
#include "support/loopback.hpp"
#include "support/loss_recorder.hpp"

#include <string>

namespace syncguard::test {
namespace {

class redis_failover : public testing::Test {
  protected:
    void SetUp() override {
        second_.command({"REPLICAOF", "127.0.0.1", std::to_string(first_.port())});
        ASSERT_TRUE(eventually([&] {
            return second_.command({"INFO", "replication"}).text.find("master_link_status:up") !=
                   std::string::npos;
        }));
    }

    /// Makes the replica the primary, and the name resolve to it.
    void fail_over() {
        second_.command({"REPLICAOF", "NO", "ONE"});
        first_.command({"REPLICAOF", "127.0.0.1", std::to_string(second_.port())});
        name_.retarget(second_.port());
    }

    bool replica_has(const std::string& key) {
        return eventually([&] { return holds_lock(second_, key); });
    }

    redis_server first_{{.arguments = {"--repl-diskless-sync-delay", "0"}}};
    redis_server second_{{.arguments = {"--repl-diskless-sync-delay", "0"}}};
    fault_proxy name_{first_.port()};
    any_backend locks_ = redis::backend({.host = "127.0.0.1", .port = name_.port()}, quiet());
};

TEST_F(redis_failover, a_primary_that_became_a_replica_is_disconnected_at_once) {
    auto held = locks_.acquire("held", {.ttl = 60s});
    ASSERT_TRUE(held);
    ASSERT_TRUE(replica_has("held"));
    fail_over();
    expect_error(error_code::service_unavailable, [&] { (void)locks_.acquire("k"); });
    EXPECT_TRUE(locks_.acquire("k"));
    EXPECT_TRUE(held->extend({.ttl = 60s}));
    EXPECT_TRUE(held->release());
    EXPECT_EQ(name_.connections(), 2U);
}

TEST_F(redis_failover, a_renewed_lock_is_kept) {
    loss_recorder losses;
    auto kept = locks_.acquire("kept", {.ttl = 6s});
    ASSERT_TRUE(kept);
    ASSERT_TRUE(replica_has("kept"));
    kept->on_lost(losses.handler());
    kept->keep_alive();
    fail_over();
    const auto begin = lease_clock::now();
    EXPECT_TRUE(eventually([&] { return lease_clock::now() > begin + 8s || losses.any(); }));
    EXPECT_FALSE(losses.any());
    EXPECT_TRUE(kept->valid());
    EXPECT_TRUE(holds_lock(second_, "kept"));
}

TEST_F(redis_failover, a_replica_that_has_lost_its_primary_is_disconnected) {
    EXPECT_TRUE(locks_.acquire("k"));
    const reserved_port nobody;
    first_.command({"CONFIG", "SET", "replica-serve-stale-data", "no"});
    first_.command({"REPLICAOF", "127.0.0.1", std::to_string(nobody.number())});
    second_.command({"REPLICAOF", "NO", "ONE"});
    name_.retarget(second_.port());
    expect_error(error_code::service_unavailable, [&] { (void)locks_.is_locked("k"); });
    EXPECT_TRUE(locks_.acquire("k"));
}

TEST_F(redis_failover, a_primary_without_its_replicas_is_disconnected) {
    EXPECT_TRUE(locks_.acquire("k"));
    first_.command({"CONFIG", "SET", "min-replicas-to-write", "2"});
    second_.command({"REPLICAOF", "NO", "ONE"});
    name_.retarget(second_.port());
    expect_error(error_code::service_unavailable, [&] { (void)locks_.acquire("k"); });
    EXPECT_TRUE(locks_.acquire("k"));
}

TEST_F(redis_failover, a_name_that_keeps_resolving_to_a_replica_is_resolved_at_a_bounded_rate) {
    const fault_proxy wrong(second_.port());
    const any_backend locks = redis::backend({.host = "127.0.0.1", .port = wrong.port()}, quiet());
    int refusals = 0;
    for (const auto until = steady_clock::now() + 3s; steady_clock::now() < until; ++refusals) {
        expect_error(error_code::service_unavailable, [&] { (void)locks.acquire("k"); });
        EXPECT_FALSE(locks.is_locked("k"));
    }
    EXPECT_GT(refusals, 100);
    EXPECT_GE(wrong.connections(), 2U);
    EXPECT_LE(wrong.connections(), 6U);
}

}  // namespace
}  // namespace syncguard::test
