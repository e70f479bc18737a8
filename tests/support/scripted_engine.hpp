/// An engine with scripted answers, for answers that a healthy store never gives.
#pragma once

#include <syncguard/engine.hpp>

#include <functional>
#include <thread>
#include <utility>

namespace syncguard::test {

/// Answers every request with `answer`; asynchronous requests on a new thread.
class scripted_engine : public engine {
  public:
    using script = std::function<outcome(const request&, const call_limits&)>;
    explicit scripted_engine(script answer) : answer_(std::move(answer)) {}

    [[nodiscard]] backend_capabilities capabilities() const noexcept override {
        return {"scripted", true, time_authority::server};
    }
    [[nodiscard]] outcome execute(const request& req, const call_limits& limits) override {
        return answer_(req, limits);
    }
    void async_execute(const request& req, const call_limits& limits,
                       completion handler) noexcept override {
        std::thread([answer = answer_, req, limits, handler = std::move(handler)] {
            outcome answered;
            std::exception_ptr failure;
            try {
                answered = answer(req, limits);
            } catch (...) {
                failure = std::current_exception();
            }
            handler(std::move(failure), std::move(answered));
        }).detach();
    }

  private:
    script answer_;
};

}  // namespace syncguard::test
