/// A store whose answers to extensions are scripted by a test.
#pragma once

#include "support/scripted_engine.hpp"

#include <syncguard/backend.hpp>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace syncguard::test {

/// Grants and releases every lock. The destructor waits for answers that are being made. Later
/// requests, such as renewals in the background, get an error: they do not run the test's script,
/// whose captures may be gone.
class scripted_extensions {
  public:
    using script = std::function<outcome(const extend_request&)>;

    explicit scripted_extensions(script answer)
        : state_(std::make_shared<state>(std::move(answer))),
          locks_(std::make_shared<scripted_engine>(
              [state = state_](const request& req, const call_limits&) {
                  return state->reply_to(req);
              })) {}
    scripted_extensions(const scripted_extensions&) = delete;
    scripted_extensions& operator=(const scripted_extensions&) = delete;
    ~scripted_extensions() { state_->end(); }

    [[nodiscard]] lease<any_capabilities> acquire(milliseconds ttl) const {
        return *locks_.acquire("k", {.ttl = ttl});
    }
    [[nodiscard]] const any_backend& locks() const { return locks_; }
    [[nodiscard]] int extends() const { return state_->count(state_->extends); }
    [[nodiscard]] int releases() const { return state_->count(state_->releases); }

  private:
    struct state {
        explicit state(script replies) : answer(std::move(replies)) {}

        [[nodiscard]] outcome reply_to(const request& req) {
            if (std::holds_alternative<release_request>(req)) {
                const std::lock_guard guard(mutex);
                ++releases;
                return outcome::done();
            }
            const auto* extend = std::get_if<extend_request>(&req);
            if (extend == nullptr) return outcome::granted(unix_time{}, fence::from_counter(1));
            {
                const std::lock_guard guard(mutex);
                if (ended) throw lock_error(error_code::service_unavailable, "the test is over");
                ++extends;
                ++answering;
            }
            const std::shared_ptr<void> finished(nullptr, [this](void*) {
                const std::lock_guard guard(mutex);
                --answering;
                changed.notify_all();
            });
            return answer(*extend);
        }
        void end() {
            std::unique_lock guard(mutex);
            ended = true;
            changed.wait(guard, [&] { return answering == 0; });
        }
        [[nodiscard]] int count(const int& counter) {
            const std::lock_guard guard(mutex);
            return counter;
        }

        script answer;
        std::mutex mutex;
        std::condition_variable changed;
        int extends = 0;
        int releases = 0;
        int answering = 0;
        bool ended = false;
    };

    std::shared_ptr<state> state_;
    any_backend locks_;
};

}  // namespace syncguard::test
