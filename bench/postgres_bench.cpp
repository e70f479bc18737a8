/// The PostgreSQL engine compared with alternatives: the same statements sent by handwritten code,
/// another implementation's protocol, and pgbench calling functions on the server.
#include "harness/bars.hpp"
#include "harness/one_cpu.hpp"
#include "harness/pgbench.hpp"
#include "harness/pipelined_statements.hpp"
#include "harness/rounds.hpp"
#include "harness/threads.hpp"
#include "postgres/lock_protocol.hpp"
#include "support/postgres_peer.hpp"
#include "support/postgres_server.hpp"

#include <syncguard/postgres.hpp>

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace syncguard::bench {
namespace {

using namespace std::chrono_literals;

/// The servers, which do not wait for the disk: it would limit all contestants equally.
///
/// All are started before there is an engine, because starting one forks, and a fork interrupts
/// engines.
struct servers {
    test::postgres_server busy{{.settings = {"max_connections=150", "shared_buffers=64MB",
                                             "autovacuum=on", "autovacuum_naptime=10"}}};
    std::optional<one_cpu> confinement{std::in_place};
    test::postgres_server of_round_trips{{.settings = {"autovacuum=on"}}};
};

servers& all_servers() {
    static servers running;
    return running;
}

void acquire_and_release(const postgres::backend& locks, const std::string& key) {
    auto lease = locks.acquire(key, {.ttl = 30s});
    if (!lease || !lease->release().ok) throw std::runtime_error(key + " was not granted");
}

void syncguard_pair(benchmark::State& state) {
    static const postgres::backend locks({.connection = all_servers().of_round_trips.url()});
    for (auto _ : state)
        acquire_and_release(locks, "bench:payment:4711");
}

void same_statements_by_hand(benchmark::State& state) {
    static pipelined_statements peer(all_servers().of_round_trips.url());
    for (auto _ : state)
        peer.pair("bench:invoice:4711");
}

BENCHMARK(syncguard_pair)->UseRealTime();
BENCHMARK(same_statements_by_hand)->UseRealTime();

constexpr auto warm_up = 300ms;
constexpr auto span = 1s;
constexpr int rounds = 7;

double of_syncguard(const postgres::backend& locks, std::size_t threads) {
    const auto make_pair = [&](std::size_t i) {
        return [&locks, key = "bench:thread:" + std::to_string(i)] {
            acquire_and_release(locks, key);
        };
    };
    return operations_per_second(threads, make_pair, warm_up, span);
}

double of_peers(const std::string& server, std::size_t sessions) {
    const auto make_pair = [&](std::size_t i) {
        const auto peer = std::make_shared<test::postgres_peer>(server);
        return [peer, key = "bench:peer:" + std::to_string(i)] {
            const auto id = test::postgres_peer::new_lock_id();
            if (!peer->acquire(key, id, 30s) || !peer->release(id)) {
                throw std::runtime_error(key + " was not granted");
            }
        };
    };
    return operations_per_second(sessions, make_pair, warm_up, span);
}

/// The concurrency at which a contestant is fastest.
std::size_t best_of(const char* name, const std::vector<std::size_t>& concurrencies,
                    const std::function<double(std::size_t)>& measure) {
    std::size_t best = 0;
    double most = 0;
    std::printf("%s:", name);
    for (const auto each : concurrencies) {
        const double rate = measure(each);
        std::printf("  %zu: %.0f/s", each, rate);
        if (rate > most) {
            most = rate;
            best = each;
        }
    }
    std::printf("\n");
    return best;
}

medians measure_throughput() {
    all_servers().confinement.reset();
    const auto& server = all_servers().busy;
    const postgres::backend locks({.connection = server.url()});
    const pgbench functions(server);
    const std::string url = server.url();
    const auto sessions =
        best_of("peer sessions", {2, 4, 8, 16, 32}, [&](auto n) { return of_peers(url, n); });
    const auto clients = best_of("pgbench clients", {2, 4, 8, 16, 32},
                                 [&](auto n) { return functions.operations_per_second(n, 2s); });
    const auto threads = best_of("syncguard threads", {4, 8, 16, 32, 64},
                                 [&](auto n) { return of_syncguard(locks, n); });
    return take_turns(
        {{"syncguard_threads", [&] { return of_syncguard(locks, threads); }},
         {"peer_statement_by_statement", [&] { return of_peers(url, sessions); }},
         {"pgbench_function_calls", [&] { return functions.operations_per_second(clients, 2s); }}},
        rounds, "operations/s");
}

}  // namespace
}  // namespace syncguard::bench

int main(int argc, char** argv) try {
    using namespace syncguard::bench;
    all_servers();
    return run_and_judge(
        argc, argv,
        {{.title = "postgres: time of a pair beside the same statements by blocking libpq",
          .figure =
              [](const medians& ns) {
                  return ns.at("syncguard_pair") / ns.at("same_statements_by_hand");
              },
          .limit = 1.15,
          .must_be = bar::direction::at_most,
          .unit = "x"},
         {.title = "postgres: threads beside the peers' protocol, statement by statement",
          .figure =
              [](const medians& rate) {
                  return rate.at("syncguard_threads") / rate.at("peer_statement_by_statement");
              },
          .limit = 3,
          .must_be = bar::direction::at_least,
          .unit = "x"},
         {.title = "postgres: threads beside pgbench with one function call for each transaction",
          .figure =
              [](const medians& rate) {
                  return rate.at("syncguard_threads") / rate.at("pgbench_function_calls");
              },
          .limit = 0.85,
          .must_be = bar::direction::at_least,
          .unit = "x"}},
        measure_throughput);
} catch (const std::exception& failure) {
    std::fprintf(stderr, "postgres_bench: %s\n", failure.what());
    return 1;
}
