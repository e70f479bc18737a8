/// Decorator that counts the requests to another engine.
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
    [[nodiscard]] bool supports_waiting() const noexcept override {
        return inner_->supports_waiting();
    }
    [[nodiscard]] bool executes_extensions_in_order() const noexcept override {
        return inner_->executes_extensions_in_order();
    }
    [[nodiscard]] outcome execute(const request& req, const call_limits& limits) override {
        ++calls_;
        return inner_->execute(req, limits);
    }
    void async_execute(const request& req, const call_limits& limits,
                       completion handler) noexcept override {
        ++calls_;
        inner_->async_execute(req, limits, std::move(handler));
    }

  private:
    std::shared_ptr<engine> inner_;
    std::atomic<int> calls_{0};
};

}  // namespace syncguard::test
