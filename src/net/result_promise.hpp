/// What a request on its way has to do with the one who made it.
#pragma once

#include <syncguard/engine.hpp>

#include <atomic>
#include <exception>
#include <functional>
#include <optional>
#include <stop_token>
#include <utility>

namespace syncguard::net {

/// The answer is written, and announced, by the thread that does the I/O.
class inquiry {
  public:
    /// `done` is empty for a caller who waits and then calls `result`.
    explicit inquiry(completion done) : done_(std::move(done)) {}

    outcome answer;
    std::exception_ptr failure;  ///< In place of an answer.

    /// Lets a stop request call `cancel`, until the end.
    void watch_for_stop(const std::stop_token& stop, std::function<void()> cancel) {
        on_stop_.emplace(stop, std::move(cancel));
    }

    /// The answer; throws what is there in its place.
    [[nodiscard]] outcome result() {
        on_stop_.reset();
        if (failure) std::rethrow_exception(failure);
        return std::move(answer);
    }

    /// Whether to tell is to call a completion, once.
    [[nodiscard]] bool calls_back() const noexcept { return static_cast<bool>(done_); }

    /// Tells who asked. True if nobody did wait, and something was acquired for nobody.
    [[nodiscard]] bool announce() noexcept {
        if (!done_) return abandon();
        on_stop_.reset();
        // The completion may own what keeps the engine alive: let it go when it has been told.
        const completion done = std::exchange(done_, nullptr);
        done(failure, std::move(answer));
        return false;
    }

    /// Nobody will ask for the result. True if something was acquired for nobody, of which the
    /// second of the two hears, this and the announcement.
    [[nodiscard]] bool abandon() noexcept {
        return announced_or_abandoned_.exchange(true) && answer.ok;
    }

  private:
    completion done_;
    std::atomic<bool> announced_or_abandoned_{false};
    std::optional<std::stop_callback<std::function<void()>>> on_stop_;
};

}  // namespace syncguard::net
