/// A thread that belongs to an object and must not outlive it, with the two cases in which its
/// owner cannot wait for it.
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

    /// Starts the thread if that has not been done. `body` must share ownership of what it refers
    /// to, since it can go on after `end` and `end_by`. One caller at a time.
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

    /// In a forked child the thread does not exist, although the parent's has left its traces: a
    /// mutex may be locked for ever. What the thread shares is never destroyed there, because its
    /// own reference is never given up.
    [[nodiscard]] bool belongs_to_parent() const noexcept;

    [[nodiscard]] bool is_current() const noexcept {
        return thread_.get_id() == std::this_thread::get_id();
    }

    /// Waits until `body`, which has been told to, returns. In a forked child it only lets go;
    /// called on the thread itself, it leaves the waiting to the end of the process.
    void end();

    /// Likewise, but if `body` has not returned by `deadline`, the thread goes on alone, and the
    /// end of the process waits for it for a short time.
    void end_by(std::chrono::steady_clock::time_point deadline);

  private:
    std::thread thread_;
    std::future<void> body_ended_;
    std::uint32_t process_;
};

}  // namespace syncguard
