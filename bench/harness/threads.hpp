/// Throughput of many threads that repeat the same operations.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

namespace syncguard::bench {

/// One acquisition and one release.
using lock_pair = std::function<void()>;

/// Runs `count` threads, each of which repeats the pair that `make_pair` returns for its number.
/// Returns the operations per second of all threads together. Rethrows their exceptions.
double operations_per_second(std::size_t count,
                             const std::function<lock_pair(std::size_t)>& make_pair,
                             std::chrono::milliseconds warm_up, std::chrono::milliseconds span);

}  // namespace syncguard::bench
