/// The stored rows: exactly as in docs/storage.md, together with rows of peers.
#include "postgres/on_postgres.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"
#include "support/postgres_peer.hpp"

#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

using rows = postgres_rows;

class postgres_storage : public on_postgres {
  protected:
    static rows locks() {
        return server().run(
            "SELECT key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key "
            "FROM syncguard_locks ORDER BY key");
    }
    static rows counters() {
        return server().run(
            "SELECT fence_key, fence, key_debug FROM syncguard_fence_counters ORDER BY fence_key");
    }
};

TEST_F(postgres_storage, a_lock_is_one_row_and_its_counter_another) {
    const auto backend = open();
    const auto now = server().now();
    const auto id = take(backend, "resource:123", 30s);
    EXPECT_EQ(locks(), (rows{{"resource:123", id.to_string(), digits(now + 30s), digits(now),
                              "000000000000001", "resource:123"}}));
    EXPECT_EQ(counters(), (rows{{"fence:resource:123", "1", "resource:123"}}));
}

TEST_F(postgres_storage, a_key_is_stored_in_its_normal_form) {
    take(open(), "cafe\xCC\x81");
    EXPECT_EQ(locks().at(0).at(0), "caf\xC3\xA9");
    EXPECT_EQ(locks().at(0).at(5), "caf\xC3\xA9");
    EXPECT_EQ(counters().at(0).at(0), "fence:caf\xC3\xA9");
}

TEST_F(postgres_storage, an_extension_changes_only_the_expiry) {
    const auto backend = open();
    const auto id = take(backend, "k", 10s);
    auto expected = locks();
    server().advance(5s);
    EXPECT_TRUE(backend.extend(id, {.ttl = 60s}).ok);
    expected.at(0).at(2) = digits(server().now() + 60s);
    EXPECT_EQ(locks(), expected);
}

TEST_F(postgres_storage, a_takeover_replaces_the_row_and_raises_the_counter) {
    const auto backend = open();
    take(backend, "k", 10s);
    server().advance(11s);
    const auto now = server().now();
    const auto id = take(backend, "k", 20s);
    EXPECT_EQ(
        locks(),
        (rows{{"k", id.to_string(), digits(now + 20s), digits(now), "000000000000002", "k"}}));
}

TEST_F(postgres_storage, a_release_removes_the_row_and_leaves_the_counter) {
    const auto backend = open();
    EXPECT_TRUE(backend.release(take(backend, "k")).ok);
    EXPECT_EQ(locks(), rows{});
    EXPECT_EQ(counters().size(), 1U);
}

TEST_F(postgres_storage, a_contended_attempt_uses_no_fence_and_writes_nothing) {
    const auto backend = open();
    take(backend, "k");
    const auto before = server().value("SELECT xmin || ',' || xmax FROM syncguard_locks");
    for (int i = 0; i < 20; ++i)
        EXPECT_FALSE(backend.acquire("k"));
    EXPECT_EQ(counters().at(0).at(1), "1");
    EXPECT_EQ(server().value("SELECT xmin || ',' || xmax FROM syncguard_locks"), before);
}

TEST_F(postgres_storage, a_counter_at_its_end_is_not_changed_and_nothing_is_locked) {
    server().run("INSERT INTO syncguard_fence_counters VALUES ('fence:k', 900000000000000)");
    expect_error(error_code::internal, [] { (void)open().acquire("k"); });
    EXPECT_EQ(counters().at(0).at(1), "900000000000000");
    EXPECT_EQ(locks(), rows{});
}

TEST_F(postgres_storage, a_lost_counter_continues_after_the_fence_of_the_stored_lock) {
    const auto backend = open();
    for (const std::string counter : {"DELETE FROM syncguard_fence_counters",
                                      "UPDATE syncguard_fence_counters SET fence = 5"}) {
        take(backend, "k", 10s);
        server().run("UPDATE syncguard_locks SET fence = '000000000000077'; " + counter);
        EXPECT_FALSE(backend.acquire("k"));
        server().advance(12s);
        EXPECT_EQ(backend.acquire("k")->fence().str(), "000000000000078");
        EXPECT_EQ(counters(), (rows{{"fence:k", "78", "k"}}));
        server().run("UPDATE syncguard_fence_counters SET fence = 1");
    }
}

TEST_F(postgres_storage, after_the_last_fence_in_a_stored_lock_nothing_is_granted) {
    const auto backend = open();
    take(backend, "k", 10s);
    server().run(
        "UPDATE syncguard_locks SET fence = '900000000000000'; "
        "DELETE FROM syncguard_fence_counters");
    server().advance(12s);
    const auto before = locks();
    expect_error(error_code::internal, [&] { (void)backend.acquire("k"); });
    EXPECT_EQ(locks(), before);
    EXPECT_EQ(counters(), rows{});
}

TEST_F(postgres_storage, a_counter_below_zero_is_refused_and_nothing_is_locked) {
    for (const std::string counter : {"-1", "-9223372036854775808"}) {
        server().run("INSERT INTO syncguard_fence_counters VALUES ('fence:k', " + counter +
                     ") ON CONFLICT (fence_key) DO UPDATE SET fence = excluded.fence");
        expect_error(error_code::invalid_argument, [] { (void)open().acquire("k"); });
        EXPECT_EQ(counters().at(0).at(1), counter);
        EXPECT_EQ(locks(), rows{});
    }
}

TEST_F(postgres_storage, a_lock_with_the_latest_expiry_is_locked) {
    const auto backend = open();
    const auto id = take(backend, "k");
    server().run("UPDATE syncguard_locks SET expires_at_ms = 9223372036854775807");
    EXPECT_FALSE(backend.acquire("k"));
    EXPECT_TRUE(backend.is_locked("k"));
    EXPECT_TRUE(backend.lookup(ownership_lookup{id}));
    EXPECT_TRUE(backend.extend(id).ok);
    EXPECT_EQ(locks().at(0).at(2), digits(server().now() + 30s));
    server().run("UPDATE syncguard_locks SET expires_at_ms = 9223372036854775807");
    auto peer = server().connect();
    peer.run("BEGIN; SELECT pg_advisory_xact_lock(hashtext('k'))");
    EXPECT_TRUE(backend.extend(id).ok);
    peer.run("ROLLBACK");
    server().run("UPDATE syncguard_locks SET expires_at_ms = 9223372036854775807");
    EXPECT_TRUE(backend.release(id).ok);
}

TEST_F(postgres_storage, a_lock_with_the_earliest_expiry_is_expired) {
    const auto backend = open();
    const auto id = take(backend, "k");
    server().run("UPDATE syncguard_locks SET expires_at_ms = -9223372036854775808");
    EXPECT_FALSE(backend.is_locked("k"));
    EXPECT_FALSE(backend.extend(id).ok);
    EXPECT_FALSE(backend.release(id).ok);
    EXPECT_TRUE(backend.acquire("k"));
}

TEST_F(postgres_storage, a_lock_is_live_for_one_second_after_its_expiry) {
    const auto backend = open();
    const auto id = take(backend, "k", 10s);
    server().advance(10s + 999ms);
    EXPECT_TRUE(backend.is_locked("k"));
    EXPECT_TRUE(backend.lookup(key_lookup{"k"}));
    EXPECT_TRUE(backend.lookup(ownership_lookup{id}));
    EXPECT_FALSE(backend.acquire("k"));
    EXPECT_TRUE(backend.extend(id, {.ttl = 10s}).ok);
    server().advance(10s + 999ms);
    EXPECT_TRUE(backend.release(id).ok);

    const auto expired = take(backend, "k", 10s);
    server().advance(10s + 1000ms);
    EXPECT_FALSE(backend.is_locked("k"));
    EXPECT_FALSE(backend.lookup(key_lookup{"k"}));
    EXPECT_FALSE(backend.lookup(ownership_lookup{expired}));
    EXPECT_FALSE(backend.extend(expired, {.ttl = 10s}).ok);
    EXPECT_FALSE(backend.release(expired).ok);
    EXPECT_TRUE(backend.acquire("k"));
}

TEST_F(postgres_storage, columns_may_change_their_types_while_a_connection_is_used) {
    const auto backend = open({.connection = {}, .tables = {}, .pool_size = 1});
    const auto use = [&] {
        const auto id = take(backend, "k");
        EXPECT_FALSE(backend.acquire("k"));
        EXPECT_TRUE(backend.is_locked("k"));
        EXPECT_TRUE(backend.lookup(key_lookup{"k"}));
        EXPECT_TRUE(backend.lookup(ownership_lookup{id}));
        EXPECT_TRUE(backend.extend(id).ok);
        EXPECT_TRUE(backend.release(id).ok);
    };
    use();
    server().run(
        "ALTER TABLE syncguard_locks ALTER key TYPE varchar(2000), "
        "ALTER lock_id TYPE varchar(22), ALTER expires_at_ms TYPE numeric, "
        "ALTER acquired_at_ms TYPE numeric, ALTER fence TYPE varchar(15), "
        "ALTER user_key TYPE varchar(2000); "
        "ALTER TABLE syncguard_fence_counters ALTER fence TYPE numeric");
    use();
    server().run(
        "ALTER TABLE syncguard_locks ALTER key TYPE text, ALTER lock_id TYPE text, "
        "ALTER expires_at_ms TYPE bigint, ALTER acquired_at_ms TYPE bigint, "
        "ALTER fence TYPE text, ALTER user_key TYPE text; "
        "ALTER TABLE syncguard_fence_counters ALTER fence TYPE bigint");
    use();
}

TEST_F(postgres_storage, columns_added_by_a_peer_are_ignored) {
    server().run("ALTER TABLE syncguard_locks ADD COLUMN note TEXT DEFAULT 'x'");
    const auto backend = open();
    const auto id = take(backend, "k");
    EXPECT_TRUE(backend.lookup(ownership_lookup{id}));
    EXPECT_TRUE(backend.extend(id).ok);
    EXPECT_TRUE(backend.release(id).ok);
    server().run("ALTER TABLE syncguard_locks DROP COLUMN note");
}

TEST_F(postgres_storage, this_library_and_a_peer_respect_each_others_locks) {
    const auto backend = open();
    postgres_peer peer(server().url());
    const auto theirs = postgres_peer::new_lock_id();
    ASSERT_EQ(peer.acquire("theirs", theirs, 30s), "000000000000001");
    EXPECT_FALSE(backend.acquire("theirs"));
    EXPECT_TRUE(backend.is_locked("theirs"));
    EXPECT_TRUE(backend.lookup(ownership_lookup{theirs}));
    EXPECT_TRUE(backend.extend(theirs, {.ttl = 60s}).ok);
    EXPECT_TRUE(backend.release(theirs).ok);
    EXPECT_EQ(backend.acquire("theirs")->fence().str(), "000000000000002");

    const auto ours = take(backend, "ours");
    EXPECT_FALSE(peer.acquire("ours", postgres_peer::new_lock_id(), 30s));
    EXPECT_TRUE(peer.extend(ours.to_string(), 60s));
    EXPECT_TRUE(peer.release(ours.to_string()));
    EXPECT_EQ(peer.acquire("ours", postgres_peer::new_lock_id(), 30s), "000000000000002");
}

TEST_F(postgres_storage, an_acquisition_waits_for_a_peers_transaction_and_sees_its_result) {
    // The peer has read the key and writes later without reading it again.
    auto peer = server().connect();
    peer.run("BEGIN; SELECT pg_advisory_xact_lock(hashtext('k'))");
    const auto backend = open();
    std::optional<bool> granted;
    std::jthread waiting([&] { granted = static_cast<bool>(backend.acquire("k")); });
    while (server().value("SELECT count(*) FROM pg_locks WHERE NOT granted") == "0")
        std::this_thread::yield();
    peer.run("INSERT INTO syncguard_locks VALUES ('k', 'AAAAAAAAAAAAAAAAAAAAAA', " +
             digits(server().now() + 30s) + ", " + digits(server().now()) +
             ", '000000000000001', 'k'); COMMIT");
    waiting.join();
    EXPECT_EQ(granted, false);
    EXPECT_EQ(counters(), rows{});
}

TEST_F(postgres_storage, the_clock_is_read_after_the_wait) {
    auto peer = server().connect();
    peer.run("BEGIN; SELECT pg_advisory_xact_lock(hashtext('k'))");
    const auto backend = open();
    std::jthread waiting([&] { take(backend, "k", 30s); });
    while (server().value("SELECT count(*) FROM pg_locks WHERE NOT granted") == "0")
        std::this_thread::yield();
    server().advance(1h);
    peer.run("COMMIT");
    waiting.join();
    EXPECT_EQ(locks().at(0).at(3), digits(server().now()));
    EXPECT_EQ(locks().at(0).at(2), digits(server().now() + 30s));
}

TEST_F(postgres_storage, the_clock_is_read_after_the_wait_for_a_row) {
    const auto backend = open();
    const auto id = take(backend, "k", 10s);
    for (const bool extends : {true, false}) {
        auto peer = server().connect();
        peer.run("BEGIN; SELECT * FROM syncguard_locks FOR UPDATE");
        std::optional<bool> done;
        std::jthread waiting(
            [&] { done = extends ? backend.extend(id, {.ttl = 2h}).ok : backend.release(id).ok; });
        while (server().value("SELECT count(*) FROM pg_locks WHERE NOT granted") == "0")
            std::this_thread::yield();
        server().advance(1h);
        peer.run("ROLLBACK");
        waiting.join();
        EXPECT_EQ(done, false) << "it had ended by then";
    }
}

TEST_F(postgres_storage, a_row_is_read_again_after_the_wait_for_it) {
    const auto backend = open();
    const auto id = take(backend, "k", 10s);
    for (const bool extends : {true, false}) {
        auto peer = server().connect();
        peer.run("BEGIN; UPDATE syncguard_locks SET expires_at_ms = expires_at_ms + 86400000");
        std::optional<bool> done;
        std::jthread waiting(
            [&] { done = extends ? backend.extend(id, {.ttl = 10s}).ok : backend.release(id).ok; });
        while (server().value("SELECT count(*) FROM pg_locks WHERE NOT granted") == "0")
            std::this_thread::yield();
        server().advance(1h);
        peer.run("COMMIT");
        waiting.join();
        EXPECT_EQ(done, true) << "it had been extended by then";
    }
}

TEST_F(postgres_storage, a_lock_extended_during_its_takeover_stays_with_its_owner) {
    const auto backend = open();
    const auto id = take(backend, "k", 10s);
    auto owner = server().connect();
    owner.run("BEGIN; UPDATE syncguard_locks SET expires_at_ms = expires_at_ms + 3600000");
    server().advance(12s);
    std::optional<bool> granted;
    std::jthread waiting([&] { granted = static_cast<bool>(backend.acquire("k")); });
    while (server().value("SELECT count(*) FROM pg_locks WHERE NOT granted") == "0")
        std::this_thread::yield();
    owner.run("COMMIT");
    waiting.join();
    EXPECT_EQ(granted, false);
    EXPECT_EQ(locks().at(0).at(1), id.to_string());
    EXPECT_EQ(counters().at(0).at(1), "1");
}

TEST_F(postgres_storage, a_lock_removed_during_its_takeover_is_granted) {
    const auto backend = open();
    take(backend, "k", 10s);
    server().advance(12s);
    auto cleaner = server().connect();
    cleaner.run("BEGIN; DELETE FROM syncguard_locks");
    std::optional<bool> granted;
    std::string starts;
    std::jthread waiting([&] {
        const auto lease = backend.acquire("k");
        granted = static_cast<bool>(lease);
        starts = locks().at(0).at(3).value();
    });
    while (server().value("SELECT count(*) FROM pg_locks WHERE NOT granted") == "0")
        std::this_thread::yield();
    server().advance(1h);
    cleaner.run("COMMIT");
    waiting.join();
    EXPECT_EQ(granted, true);
    EXPECT_EQ(starts, digits(server().now()));
    EXPECT_EQ(counters().at(0).at(1), "2");
}

TEST_F(postgres_storage,
       an_acquisition_that_waited_for_a_row_until_after_its_deadline_writes_nothing) {
    const auto backend = open();
    take(backend, "k", 10s);
    server().advance(12s);
    auto other = server().connect();
    other.run("BEGIN; SELECT * FROM syncguard_locks FOR UPDATE");
    std::stop_source stop;
    std::jthread waiting([&] {
        expect_error(error_code::aborted, [&] {
            (void)backend.acquire("k", {.ttl = 1s, .timeout = 20s}, stop.get_token());
        });
    });
    ASSERT_TRUE(eventually(
        [&] { return server().value("SELECT count(*) FROM pg_locks WHERE NOT granted") != "0"; }));
    stop.request_stop();
    waiting.join();
    server().advance(1h);
    other.run("ROLLBACK");
    // The acquisition holds this lock until the end of its transaction.
    other.run("SELECT pg_advisory_lock(hashtext('k')); SELECT pg_advisory_unlock(hashtext('k'))");
    EXPECT_EQ(counters().at(0).at(1), "1");
}

/// Commits that change a lock wait while the test holds the advisory lock 42.
class postgres_slow_commit : public postgres_storage {
  protected:
    postgres_slow_commit() {
        server().run(
            "CREATE FUNCTION wait_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "PERFORM pg_advisory_xact_lock(42); RETURN NULL; END $$; "
            "CREATE CONSTRAINT TRIGGER slow_commit AFTER UPDATE ON syncguard_locks DEFERRABLE "
            "INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait_at_commit()");
    }
    ~postgres_slow_commit() override {
        server().run("DROP TRIGGER slow_commit ON syncguard_locks; DROP FUNCTION wait_at_commit");
    }
    static void wait_for_waiting(const char* count) {
        ASSERT_TRUE(eventually([&] {
            return server().value("SELECT count(*) FROM pg_locks WHERE NOT granted") == count;
        }));
    }
};

TEST_F(postgres_slow_commit, an_extension_in_the_tolerance_second_excludes_peers_until_it_commits) {
    const auto backend = open();
    const auto id = take(backend, "k", 10s);
    server().advance(10'500ms);
    auto gate = server().connect();
    gate.run("SELECT pg_advisory_lock(42)");
    std::optional<bool> extended;
    std::jthread extending([&] { extended = backend.extend(id, {.ttl = 60s}).ok; });
    wait_for_waiting("1");
    server().advance(2s);
    postgres_peer peer(server().url());
    std::optional<std::string> granted;
    std::jthread acquiring([&] { granted = peer.acquire("k", postgres_peer::new_lock_id(), 30s); });
    wait_for_waiting("2");
    gate.run("SELECT pg_advisory_unlock(42)");
    extending.join();
    acquiring.join();
    EXPECT_EQ(extended, true);
    EXPECT_FALSE(granted);
    EXPECT_EQ(locks().at(0).at(1), id.to_string());
}

TEST_F(postgres_slow_commit,
       an_extension_that_commits_after_the_expiry_during_a_peers_transaction_fails) {
    const auto backend = open();
    const auto id = take(backend, "k", 10s);
    // The peer holds the advisory lock, and decides later.
    auto peer = server().connect();
    peer.run("BEGIN; SELECT pg_advisory_xact_lock(hashtext('k'))");
    auto gate = server().connect();
    gate.run("SELECT pg_advisory_lock(42)");
    server().advance(9'800ms);
    const auto begin = std::chrono::steady_clock::now();
    std::optional<extend_result> extended;
    std::jthread extending([&] { extended = backend.extend(id, {.ttl = 60s}); });
    wait_for_waiting("1");
    ASSERT_TRUE(eventually([&] { return std::chrono::steady_clock::now() > begin + 300ms; }));
    gate.run("SELECT pg_advisory_unlock(42)");
    extending.join();
    EXPECT_FALSE(extended->ok);
    peer.run("ROLLBACK");
    // The library must release the lock, because the caller takes it for expired and does not.
    EXPECT_TRUE(eventually([&] { return locks().empty(); }));
}

TEST_F(postgres_storage, an_extension_in_the_tolerance_second_does_not_compete_with_a_peer) {
    const auto backend = open();
    const auto id = take(backend, "k", 10s);
    auto peer = server().connect();
    peer.run("BEGIN; SELECT pg_advisory_xact_lock(hashtext('k')); SELECT * FROM syncguard_locks");
    server().advance(9s);
    EXPECT_TRUE(backend.extend(id, {.ttl = 10s}).ok) << "long before the end";
    server().advance(10s);
    EXPECT_FALSE(backend.extend(id, {.ttl = 10s}).ok);
    peer.run("ROLLBACK");
    EXPECT_TRUE(backend.extend(id, {.ttl = 10s}).ok) << "the peer has left it alone";
}

TEST_F(postgres_storage, no_operation_leaves_anything_in_its_session) {
    const auto backend = open({.connection = {}, .tables = {}, .pool_size = 1});
    for (int i = 0; i < 3; ++i)
        EXPECT_TRUE(backend.release(take(backend, "k")).ok);
    EXPECT_EQ(server().value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), "0");
}

TEST_F(postgres_storage, is_locked_writes_nothing_by_default) {
    const auto backend = open();
    take(backend, "k", 10s);
    server().advance(1h);
    EXPECT_FALSE(backend.is_locked("k"));
    EXPECT_EQ(locks().size(), 1U);
}

TEST_F(postgres_storage, is_locked_with_cleanup_removes_a_lock_that_expired_two_seconds_ago) {
    const auto backend = open({.connection = {},
                               .tables = {},
                               .pool_size = 1,
                               .connect_timeout = 5s,
                               .statement_timeout = {},
                               .cleanup_in_is_locked = true});
    take(backend, "k", 10s);
    take(backend, "other", 10s);
    EXPECT_TRUE(backend.is_locked("k"));
    server().advance(12s);
    EXPECT_FALSE(backend.is_locked("k"));
    EXPECT_EQ(locks().size(), 2U);
    server().advance(1ms);
    EXPECT_FALSE(backend.is_locked("k"));
    ASSERT_EQ(locks().size(), 1U);
    EXPECT_EQ(locks().at(0).at(0), "other");
    EXPECT_EQ(counters().size(), 2U);
}

TEST_F(postgres_storage, is_locked_answers_even_without_the_right_to_clean_up) {
    server().run("CREATE ROLE reader LOGIN; GRANT SELECT ON syncguard_locks TO reader");
    auto url = server().url();
    const std::string read_only =
        url + "&options=-c%20default_transaction_read_only%3Don&target_session_attrs=any";
    url.replace(url.find("postgres@"), 8, "reader");
    take(open(), "live");
    for (const auto& each : {url, read_only}) {
        const auto backend = open({.connection = each, .cleanup_in_is_locked = true});
        EXPECT_TRUE(backend.is_locked("live"));
        EXPECT_FALSE(backend.is_locked("free"));
    }
}

TEST_F(postgres_storage, is_locked_with_cleanup_does_not_wait_for_a_locked_row) {
    const auto backend = open({.connection = {},
                               .tables = {},
                               .pool_size = 1,
                               .connect_timeout = 5s,
                               .statement_timeout = {},
                               .cleanup_in_is_locked = true});
    take(backend, "k", 10s);
    server().advance(1h);
    auto other = server().connect();
    other.run("BEGIN; SELECT * FROM syncguard_locks FOR UPDATE");
    EXPECT_FALSE(backend.is_locked("k"));
    EXPECT_EQ(locks().size(), 1U);
}

}  // namespace
}  // namespace syncguard::test
