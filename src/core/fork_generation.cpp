#include "fork_generation.hpp"

#include <pthread.h>

#include <atomic>

namespace syncguard {

namespace {

std::atomic<std::uint32_t> generation{0};

// Constant initialisation of `generation` precedes this, so no call can see it uncounted.
[[maybe_unused]] const int installed =
    ::pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

std::uint32_t fork_generation() noexcept {
    return generation.load(std::memory_order_relaxed);
}

}  // namespace syncguard
