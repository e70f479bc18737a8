/// Many threads that do the same thing over and over.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

namespace syncguard::bench {

/// One acquisition and one release.
using lock_pair = std::function<void()>;

/// Lets `count` threads make pairs again and again, each those that `make_pair` gives for its
/// number, and returns how many operations all of them made in a second. Throws what they throw.
double operations_per_second(std::size_t count,
                             const std::function<lock_pair(std::size_t)>& make_pair,
                             std::chrono::milliseconds warm_up, std::chrono::milliseconds span);

}  // namespace syncguard::bench
