#include "contract/engine_fixture.hpp"

#include "support/manual_clock.hpp"

#include <syncguard/memory.hpp>

#include <utility>

namespace syncguard::test {

namespace {

class memory_store : public store {
  public:
    any_backend open(backend_options options) override {
        if (!engine_) {
            memory::backend first(
                {.clock = clock_.as_wall_clock(), .fences_start_after = counter_});
            engine_ = detail::access::core(first).store();
        }
        return any_backend(engine_, std::move(options));
    }
    [[nodiscard]] unix_time now() const override { return clock_.now(); }
    void advance(milliseconds by) override { clock_.advance(by); }
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

std::vector<store_kind> all_stores() {
    std::vector<store_kind> stores = {
        {"memory", false, [] { return std::make_unique<memory_store>(); }},
#ifdef SYNCGUARD_WITH_POSTGRES
        {"postgres", true, &make_postgres_store},
#endif
#ifdef SYNCGUARD_WITH_REDIS
        {"redis", true, &make_redis_store},
#endif
#ifdef SYNCGUARD_WITH_SQLITE
        {"sqlite", true, &make_sqlite_store},
#endif
    };
#ifdef SYNCGUARD_WITH_FIRESTORE
    // Where it is missing, the test that would start it says so.
    if (firestore_can_be_tested()) {
        stores.push_back({"firestore", true, &make_firestore_store, false});
    }
#endif
    return stores;
}

std::vector<store_kind> shared_stores() {
    auto stores = all_stores();
    std::erase_if(stores, [](const store_kind& kind) { return !kind.shared_between_processes; });
    return stores;
}

}  // namespace syncguard::test
