#include "fork_guard.hpp"

#include "engine.hpp"

#include <pthread.h>

#include <mutex>
#include <unordered_set>

namespace syncguard::sqlite {

namespace {

struct engine_registry {
    std::mutex mutex;
    std::unordered_set<sqlite_engine*> engines;
};

engine_registry& registry() {
    // Never destroyed: a fork can happen while the program's statics go down.
    static auto* const instance = [] {
        auto* made = new engine_registry;
        ::pthread_atfork(
            [] {
                registry().mutex.lock();
                for (auto* engine : registry().engines)
                    engine->before_fork();
            },
            [] {
                for (auto* engine : registry().engines)
                    engine->after_fork_in_parent();
                registry().mutex.unlock();
            },
            [] {
                for (auto* engine : registry().engines)
                    engine->after_fork_in_child();
                registry().mutex.unlock();
            });
        return made;
    }();
    return *instance;
}

}  // namespace

void fork_guard::add(sqlite_engine& engine) {
    auto& known = registry();
    const std::lock_guard guard(known.mutex);
    known.engines.insert(&engine);
}

void fork_guard::remove(sqlite_engine& engine) noexcept {
    auto& known = registry();
    const std::lock_guard guard(known.mutex);
    known.engines.erase(&engine);
}

}  // namespace syncguard::sqlite
