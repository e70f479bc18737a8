/// PostgreSQL behind a bad network: cut, silent or unreachable.
#include "postgres/postgres_fault.hpp"

#include <syncguard/async.hpp>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <signal.h>

#include <algorithm>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

using postgres_network = postgres_fault;

TEST_F(postgres_network, an_acquisition_cut_at_any_byte_is_granted_or_leaves_nothing_locked) {
    const auto locks = open();
    for (const auto way : {direction::to_server, direction::to_client}) {
        int granted = 0;
        for (std::uint64_t bytes = 0; bytes < 20'000; bytes += bytes < 16 ? 1 : 61) {
            (void)locks.is_locked("warm-up");
            const std::string key =
                "k:" + std::to_string(static_cast<int>(way)) + ":" + std::to_string(bytes);
            const auto cuts = proxy_.cuts();
            proxy_.arm_cut(way, bytes);
            acquire_result<any_capabilities> lease;
            try {
                lease = locks.acquire(key, {.ttl = 60s});
            } catch (const lock_error& failure) {
                EXPECT_EQ(failure.code(), error_code::service_unavailable) << failure.what();
            }
            proxy_.disarm_cut();
            if (lease) {
                ++granted;
                EXPECT_EQ(server().value("SELECT fence || lock_id FROM syncguard_locks "
                                         "WHERE key = $1",
                                         {key}),
                          lease->fence().to_string() + lease->lock_id().to_string());
                (void)lease->detach();
            } else {
                EXPECT_TRUE(eventually([&] { return !holds_lock(server(), key); }, cleanup_time))
                    << bytes;
            }
            if (proxy_.cuts() == cuts && bytes > 0) break;
        }
        EXPECT_GT(granted, 0);
    }
}

TEST_F(postgres_network, a_commit_whose_acknowledgement_was_lost_is_found_by_its_lock_id) {
    const auto locks = open();
    (void)locks.is_locked("warm-up");
    proxy_.stall(direction::to_client);
    auto call = async_acquire(locks, "k", {.ttl = 60s}, boost::asio::use_future);
    ASSERT_TRUE(eventually([&] { return holds_lock(server(), "k"); }));
    proxy_.drop_all(closing::reset);
    proxy_.resume(direction::to_client);
    auto lease = call.get();
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->lock_id().to_string(),
              server().value("SELECT lock_id FROM syncguard_locks WHERE key = 'k'"));
    EXPECT_EQ(lease->fence().str(), "000000000000001");
    EXPECT_TRUE(lease->release().ok);
}

TEST_F(postgres_network, a_release_whose_acknowledgement_was_lost_is_not_reported_as_successful) {
    const auto locks = open();
    const auto id = locks.acquire("k", {.ttl = 60s})->detach();
    proxy_.stall(direction::to_client);
    auto call = async_release(locks, id, {}, boost::asio::use_future);
    ASSERT_TRUE(eventually([&] { return !holds_lock(server(), "k"); }));
    // Meanwhile another client holds the key: the repeated release must not remove its lock.
    server().run(
        "INSERT INTO syncguard_locks VALUES ('k', 'AAAAAAAAAAAAAAAAAAAAAA', "
        "9999999999999, 1, '000000000000002', 'k')");
    proxy_.drop_all();
    proxy_.resume(direction::to_client);
    expect_error(error_code::service_unavailable, [&] { (void)call.get(); });
    EXPECT_TRUE(holds_lock(server(), "k"));
}

TEST_F(postgres_network, an_extension_whose_acknowledgement_was_lost_fails_and_is_not_sent_again) {
    const auto locks = open();
    const auto id = locks.acquire("k", {.ttl = 60s})->detach();
    const auto end_of = [&] { return server().value("SELECT expires_at_ms FROM syncguard_locks"); };
    const auto before = end_of();
    proxy_.stall(direction::to_client);
    auto call = async_extend(locks, id, {.ttl = 1h}, boost::asio::use_future);
    ASSERT_TRUE(eventually([&] { return end_of() != before; }));
    const auto extended_once = end_of();
    proxy_.drop_all();
    proxy_.resume(direction::to_client);
    expect_error(error_code::service_unavailable, [&] { (void)call.get(); });
    EXPECT_EQ(end_of(), extended_once);
}

/// The server's processes of all connections of a client, stopped while this exists.
class stopped_sessions {
  public:
    explicit stopped_sessions(const postgres_server& server)
        : server_(server), stopped_at_(server.value("SELECT clock_timestamp()")) {
        for (const auto& each :
             server.run("SELECT pid FROM pg_stat_activity WHERE application_name = 'syncguard' "
                        "AND backend_type = 'client backend'"))
            pids_.push_back(std::stoi(*each.at(0)));
        for (const pid_t each : pids_)
            ::kill(each, SIGSTOP);
    }
    stopped_sessions(const stopped_sessions&) = delete;
    stopped_sessions& operator=(const stopped_sessions&) = delete;
    ~stopped_sessions() { resume(); }

    void resume() {
        for (const pid_t each : pids_)
            ::kill(each, SIGCONT);
    }
    /// Whether one of the sessions has executed a statement that was sent while it was stopped.
    [[nodiscard]] bool one_is_done() const {
        return std::any_of(pids_.begin(), pids_.end(), [&](pid_t each) {
            const auto state = server_.run(
                "SELECT state = 'idle' AND query_start > $2::timestamptz FROM pg_stat_activity "
                "WHERE pid = $1",
                {std::to_string(each), stopped_at_});
            return state.empty() || state.at(0).at(0) == "t";
        });
    }

  private:
    const postgres_server& server_;
    const std::string stopped_at_;
    std::vector<pid_t> pids_;
};

TEST_F(postgres_network, an_extension_that_reaches_the_server_after_its_deadline_is_not_performed) {
    const auto locks = open(5s, 1);
    const auto id = locks.acquire("k", {.ttl = 60s})->detach();
    ASSERT_TRUE(locks.extend(id, {.ttl = 60s}).ok);
    const auto end_of = [&] { return server().value("SELECT expires_at_ms FROM syncguard_locks"); };
    const auto before = end_of();
    stopped_sessions sessions(server());
    const auto begin = steady_clock::now();
    expect_error(error_code::network_timeout,
                 [&] { (void)locks.extend(id, {.ttl = 500ms, .timeout = 300ms}); });
    ASSERT_TRUE(eventually([&] { return steady_clock::now() > begin + 400ms; }));
    sessions.resume();
    ASSERT_TRUE(eventually([&] { return sessions.one_is_done(); }));
    EXPECT_EQ(end_of(), before);
}

TEST_F(postgres_network,
       an_acquisition_that_reaches_the_server_after_its_deadline_is_not_performed) {
    const auto locks = open(5s, 1);
    EXPECT_TRUE(locks.acquire("warm-up"));
    stopped_sessions sessions(server());
    const auto begin = steady_clock::now();
    expect_error(error_code::network_timeout,
                 [&] { (void)locks.acquire("k", {.ttl = 60s, .timeout = 300ms}); });
    ASSERT_TRUE(eventually([&] { return steady_clock::now() > begin + 400ms; }));
    sessions.resume();
    ASSERT_TRUE(eventually([&] { return sessions.one_is_done(); }));
    EXPECT_EQ(
        server().value("SELECT count(*) FROM syncguard_fence_counters WHERE fence_key = 'fence:k'"),
        "0");
    EXPECT_FALSE(holds_lock(server(), "k"));
}

TEST_F(postgres_network, a_long_wait_on_the_server_does_not_change_later_deadlines) {
    const auto locks = open(5s, 1);
    auto other = server().connect();
    other.run("BEGIN; SELECT pg_advisory_xact_lock(hashtext('slow'))");
    auto begin = steady_clock::now();
    std::jthread waiting([&] { EXPECT_TRUE(locks.acquire("slow")); });
    ASSERT_TRUE(eventually([&] { return steady_clock::now() > begin + 1500ms; }));
    other.run("COMMIT");
    waiting.join();
    stopped_sessions sessions(server());
    begin = steady_clock::now();
    expect_error(error_code::network_timeout,
                 [&] { (void)locks.acquire("k", {.ttl = 60s, .timeout = 300ms}); });
    ASSERT_TRUE(eventually([&] { return steady_clock::now() > begin + 500ms; }));
    sessions.resume();
    ASSERT_TRUE(eventually([&] { return sessions.one_is_done(); }));
    EXPECT_EQ(
        server().value("SELECT count(*) FROM syncguard_fence_counters WHERE fence_key = 'fence:k'"),
        "0");
}

TEST_F(postgres_network, an_acquisition_that_may_still_be_performed_is_released_afterwards) {
    const auto locks = open(5s, 1);
    EXPECT_TRUE(locks.acquire("warm-up"));
    stopped_sessions sessions(server());
    const auto begin = steady_clock::now();
    expect_error(error_code::aborted, [&] {
        std::stop_source soon;
        std::jthread stopping([&] {
            (void)eventually([&] { return steady_clock::now() > begin + 100ms; });
            soon.request_stop();
        });
        (void)locks.acquire("k", {.ttl = 60s, .timeout = 10s}, soon.get_token());
    });
    // By then the release in the background has found no lock several times.
    ASSERT_TRUE(eventually([&] { return steady_clock::now() > begin + 5s; }));
    sessions.resume();
    ASSERT_TRUE(eventually([&] { return sessions.one_is_done(); }));
    EXPECT_EQ(
        server().value("SELECT fence FROM syncguard_fence_counters WHERE fence_key = 'fence:k'"),
        "1");
    EXPECT_TRUE(eventually([&] { return !holds_lock(server(), "k"); }, cleanup_time));
}

TEST_F(postgres_network, a_call_to_a_silent_server_ends_at_its_deadline_and_leaves_nothing_locked) {
    const auto locks = open();
    (void)locks.is_locked("warm-up");
    proxy_.stall(direction::to_client);
    const auto begin = steady_clock::now();
    expect_error(error_code::network_timeout,
                 [&] { (void)locks.acquire("k", {.ttl = 60s, .timeout = 300ms}); });
    EXPECT_LT(steady_clock::now() - begin, 300ms + margin);
    proxy_.resume(direction::to_client);
    EXPECT_TRUE(eventually([&] { return !holds_lock(server(), "k"); }, cleanup_time));
    EXPECT_TRUE(locks.acquire("other"));
}

TEST_F(postgres_network, a_cancelled_call_returns_soon_and_leaves_nothing_locked) {
    const auto locks = open();
    (void)locks.is_locked("warm-up");
    proxy_.stall(direction::to_client);
    std::stop_source stop;
    std::jthread stopping([&] {
        (void)eventually([&] { return holds_lock(server(), "k"); });
        stop.request_stop();
    });
    const auto begin = steady_clock::now();
    expect_error(error_code::aborted,
                 [&] { (void)locks.acquire("k", {.ttl = 60s, .timeout = 20s}, stop.get_token()); });
    EXPECT_LT(steady_clock::now() - begin, 10s);
    stopping.join();
    proxy_.resume(direction::to_client);
    EXPECT_TRUE(eventually([&] { return !holds_lock(server(), "k"); }, cleanup_time));
}

TEST_F(postgres_network, a_late_answer_is_not_given_to_another_call) {
    const auto locks = open(5s, 1);
    EXPECT_FALSE(locks.is_locked("free"));
    (void)locks.acquire("held", {.ttl = 60s})->detach();
    proxy_.delay(direction::to_client, 400ms);
    expect_error(error_code::network_timeout,
                 [&] { (void)locks.is_locked("held", {.timeout = 100ms}); });
    proxy_.delay(direction::to_client, 0ms);
    EXPECT_FALSE(locks.is_locked("free"));
    EXPECT_TRUE(locks.is_locked("held"));
}

TEST_F(postgres_network, a_stopped_server_is_unavailable_and_used_again_as_soon_as_it_runs) {
    const auto locks = open();
    EXPECT_TRUE(locks.acquire("k"));
    proxy_.refuse_connections();
    proxy_.drop_all();
    expect_error(error_code::service_unavailable, [&] { (void)locks.acquire("k"); });
    proxy_.refuse_connections(false);
    EXPECT_TRUE(eventually([&] {
        try {
            return static_cast<bool>(locks.acquire("k"));
        } catch (const lock_error&) {
            return false;
        }
    }));
}

TEST_F(postgres_network, a_server_that_accepts_and_sends_nothing_fails_at_the_connect_timeout) {
    proxy_.stall(direction::to_client);
    const postgres::backend locks({.connection = server().url_at(proxy_.port()),
                                   .tables = {},
                                   .pool_size = 1,
                                   .connect_timeout = 200ms},
                                  quiet());
    const auto begin = steady_clock::now();
    expect_error(error_code::network_timeout, [&] { (void)locks.acquire("k"); });
    EXPECT_LT(steady_clock::now() - begin, 200ms + margin);
}

TEST_F(postgres_network, a_host_that_does_not_answer_leaves_time_for_the_next) {
    proxy_.stall(direction::to_client);
    const postgres::backend locks(
        {.connection = "host=127.0.0.1,127.0.0.1 user=postgres dbname=postgres sslmode=disable "
                       "gssencmode=disable connect_timeout=2 port=" +
                       std::to_string(proxy_.port()) + "," + std::to_string(server().port())},
        quiet(10s));
    EXPECT_TRUE(locks.acquire("k"));
}

TEST_F(postgres_network, renewals_do_not_wait_for_many_acquisitions) {
    const auto locks = open(20s, 2);
    auto lease = locks.acquire("held", {.ttl = 60s});
    ASSERT_TRUE(lease);
    ASSERT_TRUE(lease->extend({.ttl = 60s}).ok);
    // All connections that are not for extensions wait for a session that has these keys locked.
    auto other = server().connect();
    other.run(
        "BEGIN; SELECT pg_advisory_xact_lock(hashtext('k' || i)) FROM generate_series(0, 9) i");
    std::vector<std::jthread> crowd;
    for (int i = 0; i < 10; ++i)
        crowd.emplace_back([&, i] { EXPECT_TRUE(locks.acquire("k" + std::to_string(i))); });
    ASSERT_TRUE(eventually(
        [&] { return server().value("SELECT count(*) FROM pg_locks WHERE NOT granted") == "2"; }));
    for (int i = 0; i < 5; ++i)
        EXPECT_TRUE(lease->extend({.ttl = 60s}).ok);
    other.run("COMMIT");
}

/// A client with one connection, which is busy until another transaction ends.
class postgres_queue : public postgres_fault {
  protected:
    postgres_queue() {
        other_.run("BEGIN; SELECT pg_advisory_xact_lock(hashtext('ahead'))");
        ahead_ = std::jthread([this] { EXPECT_TRUE(locks_.acquire("ahead")); });
        EXPECT_TRUE(eventually([] {
            return server().value("SELECT count(*) FROM pg_locks WHERE NOT granted") == "1";
        }));
    }

    /// A handler that appends the number of its call to the order of answers.
    [[nodiscard]] auto noting(int number) {
        return boost::asio::bind_executor(handlers_,
                                          [this, number](std::exception_ptr failure, auto&&...) {
                                              EXPECT_FALSE(failure);
                                              order_.push_back(number);
                                          });
    }

    void ask(int number) {
        async_is_locked(locks_, "k" + std::to_string(number), {}, noting(number));
    }
    void acquire(int number) {
        async_acquire(locks_, "k" + std::to_string(number), {.ttl = 60s}, noting(number));
    }
    void release(int number) { async_release(locks_, lock_id::generate(), {}, noting(number)); }

    /// The numbers of `count` calls in the order of their answers.
    [[nodiscard]] std::vector<int> answered(std::size_t count) {
        other_.run("COMMIT");
        while (order_.size() < count)
            handlers_.run_one();
        return order_;
    }

  private:
    const any_backend locks_ = open(60s, 1);
    postgres_connection other_ = server().connect();
    std::jthread ahead_;
    boost::asio::io_context handlers_;
    const boost::asio::executor_work_guard<boost::asio::io_context::executor_type> more_will_come_ =
        boost::asio::make_work_guard(handlers_);
    std::vector<int> order_;
};

TEST_F(postgres_queue, serves_calls_in_the_order_of_arrival_if_connections_are_few) {
    for (int i = 0; i < 6; i += 2) {
        ask(i);
        acquire(i + 1);
    }
    // All acquisitions form a batch with the first one.
    EXPECT_EQ(answered(6), (std::vector<int>{0, 1, 3, 5, 2, 4}));
}

TEST_F(postgres_queue, sends_releases_before_earlier_calls) {
    for (int i = 0; i < 6; ++i)
        ask(i);
    for (int i = 6; i < 9; ++i)
        release(i);
    EXPECT_EQ(answered(9), (std::vector<int>{6, 7, 8, 0, 1, 2, 3, 4, 5}));
}

TEST_F(postgres_network, a_statement_that_takes_too_long_ends_before_its_call) {
    const postgres::backend locks({.connection = server().url(), .statement_timeout = 200ms},
                                  quiet(10min));
    const auto id = locks.acquire("k", {.ttl = 60s})->detach();
    auto other = server().connect();
    other.run("BEGIN; SELECT * FROM syncguard_locks FOR UPDATE");
    expect_error(error_code::network_timeout, [&] { (void)locks.extend(id, {.ttl = 60s}); });
    other.run("COMMIT");
    EXPECT_TRUE(locks.release(id).ok);
}

TEST_F(postgres_network, the_pool_is_bounded) {
    const auto locks = open(20s, 3);
    std::vector<std::jthread> crowd;
    for (int i = 0; i < 24; ++i) {
        crowd.emplace_back([&, i] {
            for (int round = 0; round < 5; ++round)
                EXPECT_TRUE(locks.acquire("k" + std::to_string(i)));
        });
    }
    crowd.clear();
    EXPECT_LE(proxy_.connections(), 3U);
}

TEST_F(postgres_network, a_backend_is_destroyed_in_time_while_its_server_is_silent) {
    std::optional<any_backend> locks = open();
    (void)locks->is_locked("warm-up");
    proxy_.stall(direction::to_client);
    expect_error(error_code::network_timeout,
                 [&] { (void)locks->acquire("k", {.ttl = 60s, .timeout = 100ms}); });
    const auto begin = steady_clock::now();
    locks.reset();
    EXPECT_LT(steady_clock::now() - begin, 1s + margin);
    proxy_.resume(direction::to_client);
}

}  // namespace
}  // namespace syncguard::test
