#include "contract/engine_fixture.hpp"

#include "support/manual_clock.hpp"

#include <syncguard/memory.hpp>

#include <utility>

namespace syncguard::test {

namespace {

class memory_fixture : public engine_fixture {
  public:
    any_backend open(backend_options options) override {
        if (!engine_) {
            memory::backend first(
                {.clock = clock_.as_wall_clock(), .fences_start_after = counter_});
            engine_ = detail::access::core(first).backing_engine();
        }
        return any_backend(engine_, std::move(options));
    }
    [[nodiscard]] unix_time now() const override { return clock_.now(); }
    void advance(milliseconds step) override { clock_.advance(step); }
    void set_fence_counter(const std::string& /*key*/, std::uint64_t counter) override {
        counter_ = counter;
    }
    [[nodiscard]] std::string url() override { return {}; }

  private:
    manual_clock clock_;
    std::uint64_t counter_ = 0;
    std::shared_ptr<engine> engine_;
};

}  // namespace

std::vector<engine_kind> all_engines() {
    std::vector<engine_kind> engines = {
        {"memory", false, [] { return std::make_unique<memory_fixture>(); }},
#ifdef SYNCGUARD_WITH_POSTGRES
        {"postgres", true, &make_postgres_fixture},
#endif
#ifdef SYNCGUARD_WITH_REDIS
        {"redis", true, &make_redis_fixture},
#endif
#ifdef SYNCGUARD_WITH_SQLITE
        {"sqlite", true, &make_sqlite_fixture},
#endif
    };
#ifdef SYNCGUARD_WITH_FIRESTORE
    // If the emulator is missing, the test that starts it reports that.
    if (firestore_can_be_tested()) {
        engines.push_back({"firestore", true, &make_firestore_fixture, false});
    }
#endif
    return engines;
}

std::vector<engine_kind> shared_engines() {
    auto engines = all_engines();
    std::erase_if(engines, [](const engine_kind& kind) { return !kind.shared_between_processes; });
    return engines;
}

}  // namespace syncguard::test
