/// A thread that belongs to an object and must not outlive it, with the two cases in which nobody
/// can wait for it.
#pragma once

#include <cstdint>
#include <future>
#include <thread>
#include <utility>

namespace syncguard {

class owned_thread {
  public:
    owned_thread();

    /// Starts the thread if that has not been done. What `body` refers to must be shared with it:
    /// it can go on for a moment after `end`. One caller at a time.
    template <class Body>
    void ensure_started(Body body) {
        if (thread_.joinable()) return;
        std::promise<void> ended;
        body_ended_ = ended.get_future();
        thread_ = std::thread([body = std::move(body), ended = std::move(ended)]() mutable {
            body();
            ended.set_value();
        });
    }

    /// In a forked child the thread does not exist, although the parent's has left its traces: a
    /// mutex may be locked for ever. What the thread shares is never destroyed there, because its
    /// own reference is never given up.
    [[nodiscard]] bool is_left_behind() const noexcept;

    /// Waits until `body`, which has been told to, returns. In a forked child it only lets go;
    /// called on the thread itself, it leaves the waiting to the end of the process.
    void end();

  private:
    std::thread thread_;
    std::future<void> body_ended_;
    std::uint32_t process_;
};

}  // namespace syncguard
