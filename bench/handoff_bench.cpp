/// How fast a released lock reaches the next waiting caller in another process, and the load on the
/// store; compared with waiting by backoff alone.
#include "harness/bars.hpp"
#include "harness/hand_offs.hpp"
#include "harness/redis_connection.hpp"
#include "support/postgres_server.hpp"
#include "support/redis_server.hpp"
#include "support/temporary_folder.hpp"

#include <syncguard/lock.hpp>
#include <syncguard/postgres.hpp>
#include <syncguard/redis.hpp>
#include <syncguard/retry.hpp>
#include <syncguard/sqlite.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace syncguard::bench {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr crowd a_hundred{.processes = 4, .threads_each = 25};
constexpr crowd a_thousand{.processes = 4, .threads_each = 250};
/// Locks are held long enough for processors to sleep between two hand-offs.
constexpr crowd a_slow_hundred{.processes = 4, .threads_each = 25, .in_hand = 5ms};
constexpr std::size_t hand_offs = 500;
constexpr std::size_t hand_offs_by_backoff = 40;
constexpr const char* key = "bench:hand-off";

const lock_options for_ever{
    .ttl = 30s,
    .timeout = milliseconds::max(),
    .retry = {.max_retries = retry_policy::unlimited_retries, .max_delay = 1s}};

lease<any_capabilities> take_when_free(const any_backend& locks) {
    return acquire_with_retries(locks, key, for_ever);
}

/// Waits by backoff, without notifications.
lease<any_capabilities> take_by_backoff(const any_backend& locks) {
    thread_local std::minstd_rand random(std::random_device{}());
    for (unsigned attempt = 1;; ++attempt) {
        if (auto lease = locks.acquire(key, {.ttl = 30s})) return *std::move(lease);
        const double fraction = std::uniform_real_distribution<double>(0, 1)(random);
        std::this_thread::sleep_for(retry_pause(for_ever.retry, attempt, fraction, 1h));
    }
}

/// Sends a PING as rarely as the lock changes its holder, because the time of a round trip depends
/// on whether the processors have just been busy.
class occasional_ping {
  public:
    explicit occasional_ping(const test::redis_server& server)
        : connection_(redis_connection::over_tcp(server.port())) {}

    void operator()() {
        std::this_thread::sleep_for(pause_);
        const auto begin = steady_clock::now();
        connection_.call({"PING"});
        times_us_.push_back(
            std::chrono::duration<double, std::micro>(steady_clock::now() - begin).count());
    }
    [[nodiscard]] double median_us() {
        std::sort(times_us_.begin(), times_us_.end());
        return times_us_.at(times_us_.size() / 2);
    }

  private:
    static constexpr milliseconds pause_{3};
    redis_connection connection_;
    std::vector<double> times_us_;
};

/// Commands that clients have sent so far, without those that scripts call.
double commands_so_far(const test::redis_server& server) {
    const auto reply = redis_connection::over_tcp(server.port()).call({"INFO", "commandstats"});
    const std::string text(reply->str, reply->len);
    double sum = 0;
    for (const std::string name : {"evalsha", "eval", "client|caching", "client|tracking"}) {
        const std::string before = "cmdstat_" + name + ":calls=";
        if (const auto at = text.find(before); at != std::string::npos) {
            sum += std::stod(text.substr(at + before.size()));
        }
    }
    return sum;
}

void show(const char* title, const hand_off_times& times) {
    std::printf("%-44s %10.0f us (median) %10.0f us (99 %%)\n", title, times.median_us,
                times.p99_us);
}

medians measure_redis() {
    const test::redis_server server;
    const auto open = [&] {
        return any_backend(redis::backend({.host = "127.0.0.1", .port = server.port()}));
    };
    occasional_ping ping(server);
    const double before = commands_so_far(server);
    const auto notified =
        measure_hand_offs(open, take_when_free, a_hundred, hand_offs, [&] { ping(); });
    const double in_between = commands_so_far(server);
    const auto thousand = measure_hand_offs(open, take_when_free, a_thousand, hand_offs);
    const double after = commands_so_far(server);
    const auto polled = measure_hand_offs(open, take_by_backoff, a_hundred, hand_offs_by_backoff);
    occasional_ping slow_ping(server);
    const auto slow =
        measure_hand_offs(open, take_when_free, a_slow_hundred, hand_offs, [&] { slow_ping(); });
    const double commands = (in_between - before) / static_cast<double>(notified.acquisitions);
    const double commands_of_1000 =
        (after - in_between) / static_cast<double>(thousand.acquisitions);

    std::printf("%-44s %10.0f us (median)\n", "redis: PING meanwhile", ping.median_us());
    show("redis: 100 waiters in 4 processes", notified);
    show("redis: 1000 waiters in 4 processes", thousand);
    show("redis: 100 waiters, by backoff alone", polled);
    show("redis: 100 waiters, each in for 5 ms", slow);
    std::printf("%-44s %10.0f us (median)\n", "redis: PING meanwhile", slow_ping.median_us());
    std::printf("redis: %.1f commands a hand-off with 100 waiters, %.1f with 1000\n", commands,
                commands_of_1000);
    return {{"redis_median_in_pings", notified.median_us / ping.median_us()},
            {"redis_p99_in_pings", notified.p99_us / ping.median_us()},
            {"redis_commands_of_1000", commands_of_1000}};
}

/// How many transactions the server has executed so far.
double transactions_so_far(const test::postgres_server& server) {
    server.run("SELECT pg_stat_force_next_flush()");
    return std::stod(server.value(
        "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'postgres'"));
}

medians measure_postgres() {
    const test::postgres_server server{{.settings = {"max_connections=150"}}};
    const auto open = [&] { return any_backend(postgres::backend({.connection = server.url()})); };
    const double before = transactions_so_far(server);
    const auto notified = measure_hand_offs(open, take_when_free, a_hundred, hand_offs);
    const double after = transactions_so_far(server);
    const auto polled = measure_hand_offs(open, take_by_backoff, a_hundred, hand_offs_by_backoff);
    show("postgres: 100 waiters in 4 processes", notified);
    show("postgres: 100 waiters, by backoff alone", polled);
    std::printf("postgres: %.1f transactions a hand-off\n",
                (after - before) / static_cast<double>(notified.acquisitions));
    return {{"postgres_backoff_p99", polled.p99_us / notified.p99_us}};
}

medians measure_sqlite() {
    const test::temporary_folder folder;
    const auto open = [&] {
        return any_backend(sqlite::backend({.path = folder.path() / "locks.db"}));
    };
    (void)open().is_locked(key);
    const auto notified = measure_hand_offs(open, take_when_free, a_hundred, hand_offs);
    const auto polled = measure_hand_offs(open, take_by_backoff, a_hundred, hand_offs_by_backoff);
    show("sqlite: 100 waiters in 4 processes", notified);
    show("sqlite: 100 waiters, by backoff alone", polled);
    return {{"sqlite_backoff_median", polled.median_us / notified.median_us}};
}

medians measure_all() {
    auto figures = measure_redis();
    figures.merge(measure_postgres());
    figures.merge(measure_sqlite());
    return figures;
}

}  // namespace
}  // namespace syncguard::bench

int main() try {
    using namespace syncguard::bench;
    const auto named = [](const char* name) {
        return [name](const medians& figures) { return figures.at(name); };
    };
    return judge(measure_all(),
                 {{.title = "redis: median hand-off, in round trips of PING",
                   .figure = named("redis_median_in_pings"),
                   .limit = 4,
                   .must_be = bar::direction::at_most,
                   .unit = "x"},
                  {.title = "redis: 99 % of hand-offs, in round trips of PING",
                   .figure = named("redis_p99_in_pings"),
                   .limit = 50,
                   .must_be = bar::direction::at_most,
                   .unit = "x"},
                  {.title = "redis: commands a hand-off with 1000 waiters in 4 processes",
                   .figure = named("redis_commands_of_1000"),
                   .limit = 16,
                   .must_be = bar::direction::at_most,
                   .unit = "commands"},
                  {.title = "postgres: 99 % of hand-offs by backoff alone beside it",
                   .figure = named("postgres_backoff_p99"),
                   .limit = 1.5,
                   .must_be = bar::direction::at_least,
                   .unit = "x"},
                  {.title = "sqlite: median hand-off by backoff alone beside it",
                   .figure = named("sqlite_backoff_median"),
                   .limit = 1,
                   .must_be = bar::direction::at_least,
                   .unit = "x"}});
} catch (const std::exception& failure) {
    std::fprintf(stderr, "handoff_bench: %s\n", failure.what());
    return 1;
}
