#include "util/fork_guard.hpp"

#include "util/fork_generation.hpp"

#include <pthread.h>

#include <atomic>
#include <mutex>
#include <unordered_map>

namespace syncguard {

namespace {

struct fork_registry {
    std::mutex mutex;
    /// Each participant with the generation in which it was added.
    std::unordered_map<fork_participant*, std::uint32_t> participants;
};

/// Generation of the latest process in which the child handler ran.
std::atomic<std::uint32_t> last_handled{0};
/// The child handler ran in every generation after this one up to `last_handled`: objects created
/// at or after `handled_since` are usable.
std::atomic<std::uint32_t> handled_since{0};

void note_handled_fork() noexcept {
    const auto generation = fork_generation();
    const auto parent = generation - 1;
    if (last_handled != parent) handled_since = parent;
    last_handled = generation;
}

fork_registry& registry() {
    // Never destroyed: a fork can happen while the program's statics are destroyed.
    static auto* const instance = [] {
        auto* created = new fork_registry;
        // `fork_generation` may register a child handler, which must run before ours: child
        // handlers run in the order of their registration.
        (void)fork_generation();
        ::pthread_atfork(
            [] {
                registry().mutex.lock();
                for (const auto& [participant, generation] : registry().participants)
                    if (fork_guard::covers(generation)) participant->before_fork();
            },
            [] {
                for (const auto& [participant, generation] : registry().participants)
                    if (fork_guard::covers(generation)) participant->after_fork_in_parent();
                registry().mutex.unlock();
            },
            [] {
                note_handled_fork();
                for (const auto& [participant, generation] : registry().participants)
                    if (fork_guard::covers(generation)) participant->after_fork_in_child();
                registry().mutex.unlock();
            });
        return created;
    }();
    return *instance;
}

}  // namespace

void fork_guard::add(fork_participant& participant) {
    auto& instance = registry();
    const std::lock_guard guard(instance.mutex);
    instance.participants.insert_or_assign(&participant, fork_generation());
}

void fork_guard::remove(fork_participant& participant) noexcept {
    auto& instance = registry();
    const std::lock_guard guard(instance.mutex);
    instance.participants.erase(&participant);
}

bool fork_guard::covers(std::uint32_t generation) noexcept {
    const auto current = fork_generation();
    return generation == current || (last_handled == current && generation >= handled_since);
}

}  // namespace syncguard
