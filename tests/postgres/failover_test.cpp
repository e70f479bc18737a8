/// Failover from a lost primary to its standby.
#include "postgres/postgres_fault.hpp"

#include <optional>
#include <string>

namespace syncguard::test {
namespace {

class postgres_failover : public testing::Test {
  protected:
    [[nodiscard]] static std::string hosts(const postgres_server& first,
                                           const postgres_server& second,
                                           const std::string& wanted) {
        return "host=127.0.0.1,127.0.0.1 port=" + std::to_string(first.port()) + "," +
               std::to_string(second.port()) +
               " user=postgres dbname=postgres sslmode=disable gssencmode=disable "
               "target_session_attrs=" +
               wanted;
    }
    /// Makes commits reach the standby before they are acknowledged.
    void replicate_synchronously() {
        primary_.run("ALTER SYSTEM SET synchronous_standby_names = '*'");
        primary_.run("ALTER SYSTEM SET synchronous_commit = 'remote_apply'");
        primary_.run("SELECT pg_reload_conf()");
        ASSERT_TRUE(eventually([&] {
            return primary_.value(
                       "SELECT count(*) FROM pg_stat_replication "
                       "WHERE sync_state = 'sync'") == "1";
        }));
    }

    postgres_server primary_;
    postgres_server standby_{{.primary = &primary_}};
};

TEST_F(postgres_failover, granted_locks_are_kept_and_fences_rise_after_a_promotion) {
    replicate_synchronously();
    const postgres::backend locks(
        {.connection = hosts(standby_, primary_, "read-write"), .connect_timeout = 2s}, quiet());
    auto held = locks.acquire("held", {.ttl = 600s});
    ASSERT_TRUE(held);
    auto once = locks.acquire("again", {.ttl = 600s});
    ASSERT_TRUE(once);
    const auto earlier = once->fence();
    EXPECT_TRUE(once->release().ok);

    primary_.kill();
    expect_error(error_code::service_unavailable, [&] { (void)locks.acquire("again"); });
    standby_.promote();

    std::optional<fence> later;
    ASSERT_TRUE(eventually([&] {
        try {
            const auto lease = locks.acquire("again", {.ttl = 600s});
            if (lease) later = lease->fence();
            return static_cast<bool>(lease);
        } catch (const lock_error&) {
            return false;
        }
    }));
    EXPECT_GT(*later, earlier);
    EXPECT_FALSE(locks.acquire("held"));
    EXPECT_TRUE(held->extend({.ttl = 600s}).ok);
    EXPECT_TRUE(held->release().ok);
}

TEST_F(postgres_failover, a_standby_is_reported_as_one_and_used_after_its_promotion) {
    const postgres::backend locks({.connection = standby_.url() + "&target_session_attrs=any"},
                                  quiet());
    const auto failure =
        expect_error(error_code::service_unavailable, [&] { (void)locks.acquire("k"); });
    ASSERT_TRUE(failure);
    EXPECT_NE(std::string(failure->what()).find("only reads"), std::string::npos);
    EXPECT_FALSE(locks.is_locked("k"));
    standby_.promote();
    EXPECT_TRUE(locks.acquire("k"));
}

TEST_F(postgres_failover, a_standby_that_lags_behind_answers_no_queries) {
    standby_.run("SELECT pg_wal_replay_pause()");
    const postgres::backend holder({.connection = primary_.url()}, quiet());
    const auto held = holder.acquire("k", {.ttl = 600s});
    ASSERT_TRUE(held);
    const postgres::backend locks({.connection = standby_.url()}, quiet());
    expect_error(error_code::service_unavailable, [&] { (void)locks.is_locked("k"); });
    const postgres::backend either(
        {.connection = "host=127.0.0.1,127.0.0.1 port=" + std::to_string(standby_.port()) + "," +
                       std::to_string(primary_.port()) +
                       " user=postgres dbname=postgres "
                       "sslmode=disable gssencmode=disable"},
        quiet());
    EXPECT_TRUE(either.is_locked("k"));
}

}  // namespace
}  // namespace syncguard::test
