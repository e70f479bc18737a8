#include "fork_generation.hpp"

#include <pthread.h>

#include <atomic>

namespace syncguard {

namespace {

std::atomic<std::uint32_t> generation{0};

}  // namespace

std::uint32_t fork_generation() noexcept {
    // Handlers run in the order of their registration: whoever asks before registering one of its
    // own finds the new number in there.
    [[maybe_unused]] static const int registered = ::pthread_atfork(
        nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
    return generation.load(std::memory_order_relaxed);
}

}  // namespace syncguard
