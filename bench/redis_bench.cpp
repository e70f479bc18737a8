/// The Redis engine compared with alternatives: the same scripts sent by handwritten code, the
/// specification's scripts in a pipeline, and lock libraries for Node.
#include "harness/bare_client.hpp"
#include "harness/bars.hpp"
#include "harness/live_locks.hpp"
#include "harness/node_peer.hpp"
#include "harness/one_cpu.hpp"
#include "harness/redis_connection.hpp"
#include "harness/redis_keys.hpp"
#include "harness/redis_peer.hpp"
#include "harness/rounds.hpp"
#include "harness/threads.hpp"
#include "redis/scripts.hpp"
#include "support/redis_server.hpp"

#include <syncguard/async.hpp>
#include <syncguard/redis.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <malloc.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace syncguard::bench {
namespace {

using namespace std::chrono_literals;

/// The servers, and the CPU that the servers for round trips share with their clients.
///
/// All are started before there is an engine, because starting one forks, and a fork interrupts
/// engines.
struct servers {
    servers() {
        fill_with_live_locks(busy, 1'000);
        fill_with_live_locks(with_1k_locks, 1'000);
        fill_with_live_locks(with_1m_locks, 1'000'000);
    }

    test::redis_server busy;
    std::optional<one_cpu> confinement{std::in_place};
    test::redis_server with_1k_locks;
    test::redis_server with_1m_locks;
    test::redis_server of_held_leases;
};

servers& all_servers() {
    static servers running;
    return running;
}

redis::backend connect_to(const test::redis_server& server) {
    return redis::backend({.host = "127.0.0.1", .port = server.port()});
}

void acquire_and_release(const redis::backend& locks, const std::string& key) {
    auto lease = locks.acquire(key, {.ttl = 30s});
    if (!lease || !lease->release().ok) throw std::runtime_error(key + " was not granted");
}

/// The engine's script answers with a list: the server's time, and one number for each operation.
bool granted_or_released(const redisReply& reply) {
    return reply.type == REDIS_REPLY_ARRAY && reply.elements == 2 &&
           reply.element[1]->type == REDIS_REPLY_INTEGER && reply.element[1]->integer > 0;
}

/// The engine's own script, called as the engine calls it for one lease.
blocking_pairs engine_script_by_hand(const test::redis_server& server, const std::string& key) {
    const std::string script(redis::lock_script().text);
    return {server,
            {.script = script,
             .append_arguments =
                 [key](std::string_view lock_id, redis_command& command) {
                     command.insert(command.end(), {"3", lock_key(key), index_key(lock_id),
                                                    fence_key(key), "acquire_plain", "30000", "1"});
                 },
             .says_success = granted_or_released},
            {.script = script,
             .append_arguments =
                 [key](std::string_view lock_id, redis_command& command) {
                     command.insert(command.end(), {"2", lock_key(key), index_key(lock_id),
                                                    "release_known", "", "1"});
                 },
             .says_success = granted_or_released}};
}

// Many short rounds, because a shared machine is fast for some seconds, then slow.
constexpr auto warm_up = 100ms;
/// Longer, because Node compiles at run time.
constexpr auto warm_up_of_node = 1s;
constexpr auto span = 400ms;
constexpr int rounds = 15;

// For contestants that need only one CPU.
constexpr auto short_warm_up = 20ms;
constexpr auto short_span = 100ms;
constexpr int short_rounds = 41;

/// Throughput of blocking threads on one client, each with its own key.
double of_threads(std::size_t count, const redis::backend& locks,
                  std::chrono::milliseconds before = warm_up,
                  std::chrono::milliseconds measured = span) {
    const auto make_pair = [&](std::size_t i) {
        return [&locks, key = "bench:thread:" + std::to_string(i)] {
            acquire_and_release(locks, key);
        };
    };
    return operations_per_second(count, make_pair, before, measured);
}

double of_blocking_hiredis(blocking_pairs& peer, std::chrono::milliseconds before = warm_up,
                           std::chrono::milliseconds measured = span) {
    return operations_per_second(
        1, [&](std::size_t) { return [&] { peer.pair(); }; }, before, measured);
}

/// Contestants on one CPU with their server differ only by the work that they and the server do for
/// a pair.
medians measure_on_one_cpu() {
    const auto& server = all_servers().with_1k_locks;
    const auto locks = connect_to(server);
    const auto locks_among_1m = connect_to(all_servers().with_1m_locks);
    auto by_hand = engine_script_by_hand(server, "bench:invoice:4711");
    const auto syncguard = [](const redis::backend& at) {
        return [&at] { return of_threads(1, at, short_warm_up, short_span); };
    };
    const auto hiredis = [&] { return of_blocking_hiredis(by_hand, short_warm_up, short_span); };
    return take_turns({{"syncguard_on_one_cpu", syncguard(locks)},
                       {"hiredis_on_one_cpu", hiredis},
                       {"syncguard_among_1m_locks", syncguard(locks_among_1m)}},
                      short_rounds, "operations/s, all on one CPU");
}

/// Without a bar. The difference to the engine is what the engine adds to the system's cost of
/// threads that sleep and wake.
double of_bare_client(bare_client& peer, std::size_t threads) {
    const auto make_pair = [&](std::size_t i) { return [&peer, i] { peer.pair(i); }; };
    return operations_per_second(threads, make_pair, warm_up, span);
}

/// State that the coroutines of one thread share.
struct turns {
    long operations = 0;
    bool over = false;
};

boost::asio::awaitable<void> take_turns_with(const redis::backend& locks, std::string key,
                                             turns& shared) {
    while (!shared.over) {
        auto lease = co_await async_acquire(locks, key, {.ttl = 30s}, boost::asio::use_awaitable);
        if (!lease) throw std::runtime_error(key + " was not granted");
        co_await async_release(*lease, {}, boost::asio::use_awaitable);
        shared.operations += 2;
    }
}

/// As many operations under way as in the pipeline, by coroutines of one thread. Without a bar. The
/// difference to the 64 threads is the cost of threads that sleep and wake.
double of_256_coroutines(const redis::backend& locks) {
    turns shared;
    boost::asio::io_context io(1);
    std::exception_ptr failure;
    for (int i = 0; i < 256; ++i) {
        boost::asio::co_spawn(
            io, take_turns_with(locks, "bench:coroutine:" + std::to_string(i), shared),
            [&](std::exception_ptr thrown) {
                if (thrown) failure = std::move(thrown);
            });
    }
    io.run_for(warm_up);
    const long operations_before = shared.operations;
    const auto begin = std::chrono::steady_clock::now();
    io.run_for(span);
    const long operations = shared.operations - operations_before;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    shared.over = true;
    io.run();
    if (failure) std::rethrow_exception(failure);
    return static_cast<double>(operations) / elapsed.count();
}

/// Bytes allocated by malloc, including large blocks.
std::size_t bytes_in_use() {
    const auto information = ::mallinfo2();
    return information.uordblks + information.hblkhd;
}

double bytes_per_held_lease() {
    constexpr std::size_t count = 100'000;
    const auto locks = connect_to(all_servers().of_held_leases);
    // Allocates the buffers and tables that do not grow with the number of leases.
    acquire_and_release(locks, "bench:first");

    const std::size_t before = bytes_in_use();
    std::vector<decltype(locks.acquire(""))> held;
    held.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        held.push_back(locks.acquire("bench:held:" + std::to_string(i), {.ttl = 1h}));
        if (!held.back()) throw std::runtime_error("a lease was not granted");
    }
    const std::size_t after = bytes_in_use();
    // No other measurement uses this server, so the locks need not be released one by one.
    for (auto& lease : held)
        lease->detach();
    return static_cast<double>(after - before) / static_cast<double>(count);
}

/// The bar is set by redlock in the version that npm installs by default: like SyncGuard, it uses a
/// script and a random id for each acquisition, and a release that verifies the id. The others are
/// shown without a bar: redlock-next is a pre-release of redlock 5; redis-semaphore does less, with
/// a plain SET NX and a release that does not report its outcome.
const std::vector<std::string> node_libraries = {"redlock", "redlock-next", "redis-semaphore"};

medians measure_throughput_and_memory() {
    const double bytes = bytes_per_held_lease();

    all_servers().confinement.reset();
    const auto& server = all_servers().busy;
    const auto locks = connect_to(server);
    auto by_hand = engine_script_by_hand(server, "bench:invoice:4711");
    bare_client bare(server, 64);
    pipelined_spec_scripts pipeline(server);
    std::vector<contestant> contestants = {
        {"syncguard_1_thread", [&] { return of_threads(1, locks); }},
        {"hiredis_1_thread", [&] { return of_blocking_hiredis(by_hand); }},
        {"syncguard_64_threads", [&] { return of_threads(64, locks); }},
        {"bare_client_64_threads", [&] { return of_bare_client(bare, 64); }},
        {"syncguard_256_coroutines", [&] { return of_256_coroutines(locks); }},
        {"hiredis_pipeline", [&] { return pipeline.operations_per_second(warm_up, span); }}};
    std::printf("\n");
    for (const auto& library : node_libraries) {
        contestants.push_back({library, [peer = node_peer(server, library)] {
                                   return peer.operations_per_second(warm_up_of_node, span);
                               }});
    }
    auto figures = take_turns(contestants, rounds, "operations/s");
    figures["bytes_per_held_lease"] = bytes;
    return figures;
}

}  // namespace
}  // namespace syncguard::bench

int main() try {
    using namespace syncguard::bench;
    const auto of = [](const char* one, const char* other) {
        return [name = ratio(one, other)](const medians& all) { return all.at(name); };
    };
    all_servers();
    medians figures = measure_on_one_cpu();
    figures.merge(measure_throughput_and_memory());
    return judge(
        figures,
        {{.title = "redis: time of a pair beside blocking hiredis, on one CPU with the server",
          .figure = of("hiredis_on_one_cpu", "syncguard_on_one_cpu"),
          .limit = 1.10,
          .must_be = bar::direction::at_most,
          .unit = "x"},
         {.title = "redis: time of a pair beside blocking hiredis, where the scheduler puts them",
          .figure = of("hiredis_1_thread", "syncguard_1_thread"),
          .limit = 1.10,
          .must_be = bar::direction::at_most,
          .unit = "x"},
         {.title = "redis: 64 threads beside the specification's scripts, pipelined 256 deep",
          .figure = of("syncguard_64_threads", "hiredis_pipeline"),
          .limit = 1.5,
          .must_be = bar::direction::at_least,
          .unit = "x"},
         {.title = "redis: 64 threads beside redlock on Node at its best",
          .figure = of("syncguard_64_threads", "redlock"),
          .limit = 2,
          .must_be = bar::direction::at_least,
          .unit = "x"},
         {.title = "redis: time of a pair among 1 000 000 live locks beside 1 000",
          .figure = of("syncguard_on_one_cpu", "syncguard_among_1m_locks"),
          .limit = 1.25,
          .must_be = bar::direction::at_most,
          .unit = "x"},
         {.title = "redis: client memory of a held lease",
          .figure = [](const medians& all) { return all.at("bytes_per_held_lease"); },
          .limit = 1000,
          .must_be = bar::direction::at_most,
          .unit = "bytes"}});
} catch (const std::exception& failure) {
    std::fprintf(stderr, "redis_bench: %s\n", failure.what());
    return 1;
}
