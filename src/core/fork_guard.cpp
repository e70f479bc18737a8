#include "fork_guard.hpp"

#include "fork_generation.hpp"

#include <pthread.h>

#include <mutex>
#include <unordered_set>

namespace syncguard {

namespace {

struct fork_registry {
    std::mutex mutex;
    std::unordered_set<fork_participant*> participants;
};

fork_registry& registry() {
    // Never destroyed: a fork can happen while the program's statics go down.
    static auto* const instance = [] {
        auto* made = new fork_registry;
        // Its handler must come first: participants in the child rely on the new number.
        (void)fork_generation();
        ::pthread_atfork(
            [] {
                registry().mutex.lock();
                for (auto* each : registry().participants)
                    each->before_fork();
            },
            [] {
                for (auto* each : registry().participants)
                    each->after_fork_in_parent();
                registry().mutex.unlock();
            },
            [] {
                for (auto* each : registry().participants)
                    each->after_fork_in_child();
                registry().mutex.unlock();
            });
        return made;
    }();
    return *instance;
}

}  // namespace

void fork_guard::add(fork_participant& participant) {
    auto& known = registry();
    const std::lock_guard guard(known.mutex);
    known.participants.insert(&participant);
}

void fork_guard::remove(fork_participant& participant) noexcept {
    auto& known = registry();
    const std::lock_guard guard(known.mutex);
    known.participants.erase(&participant);
}

}  // namespace syncguard
