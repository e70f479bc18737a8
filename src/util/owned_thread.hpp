/// `owned_thread`: a thread that its owner joins, except in a forked child, on the thread itself or
/// after a deadline.
#pragma once

#include "util/library_thread.hpp"

#include <chrono>
#include <cstdint>
#include <future>
#include <thread>
#include <utility>

namespace syncguard {

class owned_thread {
  public:
    owned_thread();

    /// Starts the thread at the first call. `body` must share ownership of the objects it refers
    /// to, since it may run longer than `end` and `end_by`. One caller at a time.
    template <class Body>
    void ensure_started(const char* name, Body body) {
        if (thread_.joinable()) return;
        std::promise<void> ended;
        body_ended_ = ended.get_future();
        thread_ = start_thread(name, [body = std::move(body), ended = std::move(ended)]() mutable {
            body();
            ended.set_value();
        });
    }

    /// True in a forked child: the thread does not exist there, and a mutex that it had locked
    /// stays locked for ever. Objects that it shares are never destroyed there, because the
    /// thread's references to them are never released.
    [[nodiscard]] bool belongs_to_parent() const noexcept;

    [[nodiscard]] bool is_current() const noexcept {
        return thread_.get_id() == std::this_thread::get_id();
    }

    /// Joins the thread; the owner must have requested `body` to return. In a forked child it only
    /// detaches the thread object; called on the thread itself, it returns, and the end of the
    /// process waits for the thread.
    void end();

    /// The same, but if `body` has not returned by `deadline`, the thread goes on, and the end of
    /// the process waits for it, for a second at most.
    void end_by(std::chrono::steady_clock::time_point deadline);

  private:
    std::thread thread_;
    std::future<void> body_ended_;
    std::uint32_t process_;
};

}  // namespace syncguard
