/// The Firestore engine compared with a client that uses transactions, on one emulator.
#include "harness/bars.hpp"
#include "harness/firestore_peer.hpp"
#include "harness/rounds.hpp"
#include "support/firestore_emulator.hpp"

#include <syncguard/firestore.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto warm_up = 500ms;
constexpr auto span = 2s;
constexpr int rounds = 5;
constexpr int many = 10;

/// Operations per second of all clients together. An error of any client ends the benchmark.
double operations_per_second(const std::vector<std::function<void()>>& pairs) {
    std::atomic<bool> stopping{false};
    std::atomic<long> operations{0};
    std::vector<std::future<void>> clients;
    for (const auto& pair : pairs) {
        clients.push_back(std::async(std::launch::async, [&] {
            while (!stopping) {
                pair();
                operations += 2;
            }
        }));
    }
    std::this_thread::sleep_for(warm_up);
    const long before = operations;
    const auto begin = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(span);
    const long done = operations - before;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    stopping = true;
    for (auto& each : clients)
        each.get();
    return static_cast<double>(done) / elapsed.count();
}

/// A separate client with its own key.
std::function<void()> syncguard_client(const test::firestore_project& project,
                                       const std::string& key) {
    const firestore::backend locks(
        {.project = project.name(), .emulator_host = project.emulator_host()},
        {.operation_timeout = 30s});
    return [locks, key] {
        auto lease = locks.acquire(key, {.ttl = 30s});
        if (!lease || !lease->release().ok) throw std::runtime_error(key + " was not granted");
    };
}

medians measure(const test::firestore_project& project) {
    std::vector<std::function<void()>> clients;
    for (int i = 0; i < many; ++i)
        clients.push_back(syncguard_client(project, "bench:" + std::to_string(i)));
    const auto peer = std::make_shared<transaction_peer>(project, "bench:peer");
    return take_turns(
        {{"syncguard_1_client", [&] { return operations_per_second({clients.front()}); }},
         {"syncguard_10_clients", [&] { return operations_per_second(clients); }},
         {"transactions_1_client", [&] { return operations_per_second({[&] { peer->pair(); }}); }}},
        rounds, "operations/s");
}

}  // namespace
}  // namespace syncguard::bench

int main() try {
    using namespace syncguard::bench;
    if (!syncguard::test::firestore_emulator::is_installed()) {
        std::puts("SKIPPED: the Firestore emulator is not installed");
        return 0;
    }
    const syncguard::test::firestore_emulator emulator;
    const syncguard::test::firestore_project project(emulator.port());
    return judge(measure(project),
                 {{.title = "firestore: one client beside one that uses transactions",
                   .figure =
                       [](const medians& rate) {
                           return rate.at("syncguard_1_client") / rate.at("transactions_1_client");
                       },
                   .limit = 1.5,
                   .must_be = bar::direction::at_least,
                   .unit = "x"},
                  {.title = "firestore: ten clients beside one that uses transactions",
                   .figure =
                       [](const medians& rate) {
                           return rate.at("syncguard_10_clients") /
                                  rate.at("transactions_1_client");
                       },
                   .limit = 3,
                   .must_be = bar::direction::at_least,
                   .unit = "x"}});
} catch (const std::exception& failure) {
    std::fprintf(stderr, "firestore_bench: %s\n", failure.what());
    return 1;
}
