#include "contract/engine_fixture.hpp"
#include "support/firestore_emulator.hpp"
#include "support/manual_clock.hpp"

#include <syncguard/firestore.hpp>

#include <utility>

namespace syncguard::test {

namespace {

class firestore_fixture : public engine_fixture {
  public:
    any_backend open(backend_options options) override {
        return firestore::backend({.project = project_.name(),
                                   .emulator_host = project_.emulator_host(),
                                   .clock = clock_.as_wall_clock()},
                                  std::move(options));
    }
    [[nodiscard]] unix_time now() const override { return clock_.now(); }
    void advance(milliseconds step) override { clock_.advance(step); }
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

std::unique_ptr<engine_fixture> make_firestore_fixture() {
    return std::make_unique<firestore_fixture>();
}

bool firestore_can_be_tested() {
    return firestore_emulator::is_installed();
}

}  // namespace syncguard::test
