/// One-shot result of a request, with its stop callback.
#pragma once

#include <syncguard/engine.hpp>

#include <atomic>
#include <exception>
#include <functional>
#include <optional>
#include <stop_token>
#include <utility>

namespace syncguard::net {

/// The thread that does the I/O writes the answer and delivers it.
class result_promise {
  public:
    /// `handler` is empty for a blocking caller, who then calls `result`.
    explicit result_promise(completion handler) : handler_(std::move(handler)) {}

    outcome answer;
    std::exception_ptr failure;  ///< Set instead of an answer.

    /// Until delivery, a stop request calls `cancel`.
    void watch_for_stop(const std::stop_token& stop, std::function<void()> cancel) {
        on_stop_.emplace(stop, std::move(cancel));
    }

    /// Returns the answer, or throws `failure`.
    [[nodiscard]] outcome result() {
        on_stop_.reset();
        if (failure) std::rethrow_exception(failure);
        return std::move(answer);
    }

    /// Whether `deliver` will call a handler, which it does once.
    [[nodiscard]] bool has_handler() const noexcept { return static_cast<bool>(handler_); }

    /// Calls the handler. Without one, see `detach_caller`.
    [[nodiscard]] bool deliver() noexcept {
        if (!handler_) return detach_caller();
        on_stop_.reset();
        // The handler may hold the last reference to the engine, so it is destroyed after the call.
        const completion handler = std::exchange(handler_, nullptr);
        handler(failure, std::move(answer));
        return false;
    }

    /// `deliver` and `detach_caller` race. The later one returns true if a lock was acquired; its
    /// caller must release it.
    [[nodiscard]] bool detach_caller() noexcept {
        return delivered_or_detached_.exchange(true) && answer.ok;
    }

  private:
    completion handler_;
    std::atomic<bool> delivered_or_detached_{false};
    std::optional<std::stop_callback<std::function<void()>>> on_stop_;
};

}  // namespace syncguard::net
