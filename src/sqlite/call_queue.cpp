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

constexpr std::size_t most_waiting = 100'000;

/// A call that waits for its turn. Whoever claims it first, its turn, a stop request or its
/// deadline, ends it.
class waiting_call : public std::enable_shared_from_this<waiting_call> {
  public:
    waiting_call(const request& what, call_limits limits, completion done)
        : what_(what), limits_(std::move(limits)), done_(std::move(done)) {}

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
            answer = target.perform(what_, limits_);
        } catch (...) {
            failure = std::current_exception();
        }
        finish(std::move(failure), std::move(answer));
    }

    void refuse(error_code code, const char* why) {
        if (claimed_.exchange(true)) return;
        finish(std::make_exception_ptr(lock_error(code, why)), {});
    }

    void refuse(std::exception_ptr failure) {
        if (!claimed_.exchange(true)) finish(std::move(failure), {});
    }

  private:
    void finish(std::exception_ptr failure, outcome answer) {
        // The completion may own what keeps the engine alive: let it go when it has been told.
        const completion done = std::move(done_);
        done(std::move(failure), std::move(answer));
    }

    request what_;
    call_limits limits_;
    completion done_;
    std::atomic<bool> claimed_{false};
    std::optional<std::stop_callback<std::function<void()>>> on_stop_;
};

}  // namespace

call_queue::call_queue()
    : extensions_("syncguard-renew", most_waiting),
      releases_("syncguard-free", std::numeric_limits<std::size_t>::max()),
      others_("syncguard-calls", most_waiting) {}

background_thread& call_queue::thread_of(const request& req) noexcept {
    if (std::holds_alternative<extend_request>(req)) return extensions_;
    if (std::holds_alternative<release_request>(req)) return releases_;
    return others_;
}

void call_queue::post(engine& target, const request& what, const call_limits& limits,
                      completion done) noexcept {
    std::shared_ptr<waiting_call> call;
    try {
        call = std::make_shared<waiting_call>(what, limits, done);
    } catch (...) {
        done(std::current_exception(), {});
        return;
    }
    try {
        call->watch_for_stop();
        const auto deadline = deadlines_.schedule(limits.deadline, [call] {
            call->refuse(error_code::network_timeout,
                         "other calls used the lock file until the deadline; try again or allow "
                         "more time");
        });
        const bool accepted = thread_of(what).try_post([call, deadline, &target, this] {
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
