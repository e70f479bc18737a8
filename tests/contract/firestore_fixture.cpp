#include "contract/engine_fixture.hpp"
#include "support/firestore_emulator.hpp"
#include "support/manual_clock.hpp"

#include <syncguard/firestore.hpp>

#include <utility>

namespace syncguard::test {

namespace {

class firestore_store : public store {
  public:
    any_backend open(backend_options options) override {
        return firestore::backend({.project = project_.name(),
                                   .emulator_host = project_.emulator_host(),
                                   .clock = clock_.as_wall_clock()},
                                  std::move(options));
    }
    [[nodiscard]] unix_time now() const override { return clock_.now(); }
    void advance(milliseconds by) override { clock_.advance(by); }
    void set_fence_counter(const std::string& key, std::uint64_t counter) override {
        project_.put("fence_counters", "fence:" + key,
                     R"({"fence":{"stringValue":")" + fence::from_counter(counter).to_string() +
                         R"("},"keyDebug":{"stringValue":")" + key + R"("}})");
    }
    [[nodiscard]] bool delete_fence_counter(const std::string& key) override {
        project_.remove("fence_counters", "fence:" + key);
        return true;
    }
    [[nodiscard]] std::string url() override { return project_.url(); }

  private:
    firestore_project project_;
    manual_clock clock_;
};

}  // namespace

std::unique_ptr<store> make_firestore_store() {
    return std::make_unique<firestore_store>();
}

bool firestore_can_be_tested() {
    return firestore_emulator::is_installed();
}

}  // namespace syncguard::test
