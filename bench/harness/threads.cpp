#include "harness/threads.hpp"

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace syncguard::bench {

double operations_per_second(std::size_t count,
                             const std::function<lock_pair(std::size_t)>& make_pair,
                             std::chrono::milliseconds warm_up, std::chrono::milliseconds span) {
    struct alignas(64) counter {
        std::atomic<std::int64_t> operations{0};
    };
    std::vector<counter> counters(count);
    std::atomic<bool> stopping{false};
    const auto total = [&] {
        std::int64_t sum = 0;
        for (const auto& each : counters)
            sum += each.operations.load(std::memory_order_relaxed);
        return sum;
    };

    std::vector<std::future<void>> threads;
    // Stops the threads even if not all of them could be started.
    const auto stop = [](std::atomic<bool>* flag) { *flag = true; };
    std::unique_ptr<std::atomic<bool>, decltype(stop)> stops(&stopping, stop);
    for (std::size_t i = 0; i < count; ++i) {
        threads.push_back(std::async(std::launch::async, [&, i] {
            const auto pair = make_pair(i);
            while (!stopping.load(std::memory_order_relaxed)) {
                pair();
                counters[i].operations.fetch_add(2, std::memory_order_relaxed);
            }
        }));
    }
    std::this_thread::sleep_for(warm_up);
    const std::int64_t operations_before = total();
    const auto begin = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(span);
    const std::int64_t operations = total() - operations_before;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    stops.reset();
    for (auto& thread : threads)
        thread.get();
    return static_cast<double>(operations) / elapsed.count();
}

}  // namespace syncguard::bench
