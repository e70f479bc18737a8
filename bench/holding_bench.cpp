/// The cost of holding many locks on one Redis server: renewals and memory.
#include "harness/bars.hpp"
#include "harness/rounds.hpp"
#include "harness/threads.hpp"
#include "support/redis_server.hpp"

#include <syncguard/redis.hpp>

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t leases = 10'000;
constexpr milliseconds ttl = 30s;
constexpr std::array<std::size_t, 4> thread_counts{1, 4, 16, 64};
/// Three rounds of renewals, each a third of the TTL.
constexpr milliseconds window = ttl;

std::chrono::microseconds cpu_time() {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    const auto of = [](const timeval& time) {
        return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
    };
    return of(used.ru_utime) + of(used.ru_stime);
}

std::size_t bytes_in_use() {
    const auto information = ::mallinfo2();
    return information.uordblks + information.hblkhd;
}

medians hold_many() {
    const test::redis_server server;
    const redis::backend locks({.host = "127.0.0.1", .port = server.port()});
    std::atomic<int> lost{0};
    {
        auto first = locks.acquire("bench:first");
        first->keep_alive();
    }

    const std::size_t bytes_before = bytes_in_use();
    std::vector<decltype(locks.acquire(""))> held;
    held.reserve(leases);
    for (std::size_t i = 0; i < leases; ++i) {
        held.push_back(locks.acquire("bench:held:" + std::to_string(i), {.ttl = ttl}));
        if (!held.back()) throw std::runtime_error("a lease was not granted");
        held.back()->on_lost([&](const loss&) { ++lost; });
        (void)held.back()->stop_token();
        held.back()->keep_alive();
    }
    const std::size_t bytes = bytes_in_use() - bytes_before;

    const auto cpu_before = cpu_time();
    const auto begin = std::chrono::steady_clock::now();
    // The longest time that another caller waits for an answer during renewals.
    std::chrono::duration<double, std::milli> longest{0};
    while (std::chrono::steady_clock::now() < begin + window) {
        std::this_thread::sleep_for(50ms);
        const auto asked = std::chrono::steady_clock::now();
        (void)locks.is_locked("bench:other");
        longest = std::max<std::chrono::duration<double, std::milli>>(
            longest, std::chrono::steady_clock::now() - asked);
    }
    const std::chrono::duration<double> cpu = cpu_time() - cpu_before;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;

    for (auto& lease : held) {
        if (lost != 0 || !lease->valid()) throw std::runtime_error("a lock was lost");
    }
    std::printf("%zu leases held for %.0f s took %.2f s of CPU\n", leases, elapsed.count(),
                cpu.count());
    return {{"percent_of_a_core", 100 * cpu.count() / elapsed.count()},
            {"longest_answer_ms", longest.count()},
            {"bytes_per_lease", static_cast<double>(bytes) / static_cast<double>(leases)}};
}

/// The cost for other callers while a lease is kept: the library's thread performs their I/O as
/// well. This figure has no bar.
medians pairs_beside_a_kept_lease() {
    const test::redis_server server;
    const redis::backend locks({.host = "127.0.0.1", .port = server.port()});
    const auto pairs_of_threads = [&](std::size_t threads) {
        const auto make_pair = [&](std::size_t i) {
            return [&locks, key = "bench:thread:" + std::to_string(i)] {
                auto lease = locks.acquire(key, {.ttl = ttl});
                if (!lease || !lease->release().ok) throw std::runtime_error("not granted");
            };
        };
        return operations_per_second(threads, make_pair, 50ms, 300ms);
    };
    std::vector<contestant> contestants;
    for (const std::size_t threads : thread_counts) {
        const auto name = std::to_string(threads) + "_threads";
        contestants.push_back({name, [=] { return pairs_of_threads(threads); }});
        contestants.push_back({name + "_kept", [=, &locks] {
                                   auto kept = locks.acquire("bench:kept", {.ttl = ttl});
                                   kept->keep_alive();
                                   return pairs_of_threads(threads);
                               }});
    }
    auto figures = take_turns(contestants, 11, "operations/s");
    for (const std::size_t threads : thread_counts) {
        const auto name = std::to_string(threads) + "_threads";
        std::printf("%2zu threads: a kept lease costs a factor of %.2f\n", threads,
                    figures.at(ratio(name, name + "_kept")));
    }
    return figures;
}

}  // namespace
}  // namespace syncguard::bench

int main() try {
    using namespace syncguard::bench;
    medians all = hold_many();
    all.merge(pairs_beside_a_kept_lease());
    return judge(all,
                 {{.title = "redis: CPU for renewing 10 000 leases",
                   .figure = [](const medians& figures) { return figures.at("percent_of_a_core"); },
                   .limit = 5,
                   .must_be = bar::direction::at_most,
                   .unit = "% of a core"},
                  {.title = "redis: longest answer to others meanwhile",
                   .figure = [](const medians& figures) { return figures.at("longest_answer_ms"); },
                   .limit = 100,
                   .must_be = bar::direction::at_most,
                   .unit = "ms"},
                  {.title = "redis: client memory of a lease that is renewed and watched",
                   .figure = [](const medians& figures) { return figures.at("bytes_per_lease"); },
                   .limit = 1000,
                   .must_be = bar::direction::at_most,
                   .unit = "bytes"}});
} catch (const std::exception& failure) {
    std::fprintf(stderr, "holding_bench: %s\n", failure.what());
    return 1;
}
