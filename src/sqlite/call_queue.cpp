#include "sqlite/call_queue.hpp"

#include <syncguard/error.hpp>

#include <atomic>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

namespace syncguard::sqlite {

namespace {

constexpr std::size_t max_queued = 100'000;

/// A call in a queue. Its execution, a stop request and its deadline compete; the first of them
/// claims the call and completes it.
class queued_call : public std::enable_shared_from_this<queued_call> {
  public:
    queued_call(const request& req, call_limits limits, completion handler)
        : req_(req), limits_(std::move(limits)), handler_(std::move(handler)) {}

    void watch_for_stop() {
        on_stop_.emplace(limits_.stop, [weak = weak_from_this()] {
            if (const auto self = weak.lock()) {
                self->refuse(error_code::aborted, "the operation was cancelled while it waited");
            }
        });
    }

    void run(engine& target) {
        if (claimed_.exchange(true)) return;
        outcome answer;
        std::exception_ptr failure;
        try {
            answer = target.execute(req_, limits_);
        } catch (...) {
            failure = std::current_exception();
        }
        finish(std::move(failure), std::move(answer));
    }

    void refuse(error_code code, const char* message) {
        if (claimed_.exchange(true)) return;
        finish(std::make_exception_ptr(lock_error(code, message)), {});
    }

    void refuse(std::exception_ptr failure) {
        if (!claimed_.exchange(true)) finish(std::move(failure), {});
    }

  private:
    void finish(std::exception_ptr failure, outcome answer) {
        // Moved to a local variable, so that the completion, which may be the last owner of the
        // engine, is destroyed after it was called.
        const completion handler = std::move(handler_);
        handler(std::move(failure), std::move(answer));
    }

    request req_;
    call_limits limits_;
    completion handler_;
    std::atomic<bool> claimed_{false};
    std::optional<std::stop_callback<std::function<void()>>> on_stop_;
};

}  // namespace

call_queue::call_queue()
    : extensions_("syncguard-renew", max_queued),
      releases_("syncguard-free", std::numeric_limits<std::size_t>::max()),
      others_("syncguard-calls", max_queued) {}

background_thread& call_queue::thread_of(const request& req) noexcept {
    if (std::holds_alternative<extend_request>(req)) return extensions_;
    if (std::holds_alternative<release_request>(req)) return releases_;
    return others_;
}

void call_queue::post(engine& target, const request& req, const call_limits& limits,
                      completion handler) noexcept {
    std::shared_ptr<queued_call> call;
    try {
        call = std::make_shared<queued_call>(req, limits, handler);
    } catch (...) {
        handler(std::current_exception(), {});
        return;
    }
    try {
        call->watch_for_stop();
        const auto deadline = deadlines_.schedule(limits.deadline, [call] {
            call->refuse(error_code::network_timeout,
                         "other calls used the lock file until the deadline; try again or allow "
                         "more time");
        });
        const bool accepted = thread_of(req).try_post([call, deadline, &target, this] {
            deadlines_.cancel(deadline);
            call->run(target);
        });
        if (!accepted) {
            deadlines_.cancel(deadline);
            call->refuse(error_code::rate_limited,
                         "too many asynchronous calls wait for the lock file already");
        }
    } catch (...) {
        call->refuse(std::current_exception());
    }
}

}  // namespace syncguard::sqlite
