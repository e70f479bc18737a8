/// An engine that counts what reaches the one behind it.
#pragma once

#include <syncguard/engine.hpp>

#include <atomic>
#include <memory>
#include <utility>

namespace syncguard::test {

class counting_engine : public engine {
  public:
    explicit counting_engine(std::shared_ptr<engine> inner) : inner_(std::move(inner)) {}

    [[nodiscard]] int calls() const noexcept { return calls_; }

    [[nodiscard]] backend_capabilities capabilities() const noexcept override {
        return inner_->capabilities();
    }
    [[nodiscard]] bool tells_when_free() const noexcept override {
        return inner_->tells_when_free();
    }
    [[nodiscard]] bool executes_extensions_in_order() const noexcept override {
        return inner_->executes_extensions_in_order();
    }
    [[nodiscard]] outcome perform(const request& what, const call_limits& limits) override {
        ++calls_;
        return inner_->perform(what, limits);
    }
    void start(const request& what, const call_limits& limits, completion done) noexcept override {
        ++calls_;
        inner_->start(what, limits, std::move(done));
    }

  private:
    std::shared_ptr<engine> inner_;
    std::atomic<int> calls_{0};
};

}  // namespace syncguard::test
