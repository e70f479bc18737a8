/// The side of a client that callers see: takes orders, hands them to the loop, and knows when all
/// that must be done before the end has been done.
///
/// Nothing in here knows any protocol.
#pragma once

#include "net/io_loop.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace syncguard::net {

/// A task that a client was asked to do.
class order : public task {
  public:
    using task::task;

    /// Whether nobody waits for it and it must be done all the same: it outlasts failures to
    /// connect until its deadline, and the client's end waits for it, for a while.
    [[nodiscard]] virtual bool persists() const noexcept { return false; }

    /// Whether the order extends or releases an existing lock, or persists. The client admits such
    /// an order however many operations wait, and sends it before others.
    [[nodiscard]] virtual bool has_priority() const noexcept { return persists(); }

    /// Whether its caller has cancelled it.
    [[nodiscard]] bool is_unwanted() const noexcept { return unwanted_; }

  private:
    friend class front_desk;
    std::atomic<bool> unwanted_{false};
};

/// Thread safety: `perform`, `start` and `cancel` may be called concurrently; what says so is for
/// the thread that drives.
class front_desk {
  public:
    /// `where` is how messages name the server.
    front_desk(driven& whose, std::string where);

    [[nodiscard]] io_driver& driver() noexcept { return driver_; }

    /// Returns when the order has been carried out; the calling thread does the I/O if no other
    /// thread does. Throws `lock_error` (rate_limited) if too many operations wait and the order
    /// has no priority.
    void perform(const std::shared_ptr<order>& what);

    /// Returns at once. Throws as `perform`, or `std::system_error` if no thread can be started;
    /// then nothing was begun.
    void start(const std::shared_ptr<order>& what);

    /// The order becomes unwanted, and the next step finds it among those that were cancelled.
    void cancel(std::shared_ptr<order> what) noexcept;

    /// Waits for orders that persist, for a while, and ends the driver's thread. Others have ended.
    void end(std::chrono::milliseconds patience);

    /// For orders that come about elsewhere than here. The thread that drives also counts out each
    /// order that it has carried out.
    void count_in(const order& what);
    void count_out(const order& what) noexcept;

    /// What was cancelled since the last time. `into` is empty. For the thread that drives.
    void take_cancelled(std::vector<std::shared_ptr<order>>& into);

  private:
    const std::string where_;
    io_driver driver_;
    std::mutex mutex_;
    std::vector<std::shared_ptr<order>> cancelled_;
    std::atomic<bool> some_cancelled_{false};
    std::size_t persisting_ = 0;
    std::condition_variable none_persists_;
    std::atomic<std::size_t> unfinished_{0};
};

}  // namespace syncguard::net
