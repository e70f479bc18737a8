/// Thread-safe entry to a client: limits the number of outstanding operations, collects
/// cancellations, waits for background operations at shutdown.
///
/// Independent of any protocol.
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

/// A request on its way through a client.
class operation : public task {
  public:
    using task::task;

    /// Whether it must be performed although no caller waits for it. If the client cannot connect,
    /// it tries again until the deadline of such an operation. The client's shutdown waits for it,
    /// up to a limit.
    [[nodiscard]] virtual bool is_background() const noexcept { return false; }

    /// Whether it extends or releases an existing lock, or is a background operation. The client
    /// always admits such an operation, and sends it before the others.
    [[nodiscard]] virtual bool has_priority() const noexcept { return is_background(); }

    /// Whether its caller has cancelled it.
    [[nodiscard]] bool cancel_requested() const noexcept { return cancel_requested_; }

  private:
    friend class submission_queue;
    std::atomic<bool> cancel_requested_{false};
};

/// Passes operations and cancellations from any thread to the leader. Thread safety: all members
/// may be called concurrently, except `shutdown` and members marked "for the leader".
class submission_queue {
  public:
    /// `server_name` names the server in messages.
    submission_queue(io_loop::handler& io_handler, std::string server_name);

    [[nodiscard]] io_loop& loop() noexcept { return loop_; }

    /// Returns when the operation has been carried out; the calling thread does the I/O if no other
    /// thread does. Throws `lock_error` (rate_limited) if too many operations wait and this one has
    /// no priority, and as `io_loop::execute` does.
    void execute(const std::shared_ptr<operation>& op);

    /// Submits the operation and returns at once. Throws `lock_error` (rate_limited) as `execute`
    /// does, and as `io_loop::submit` does; the operation was not submitted then.
    void submit(const std::shared_ptr<operation>& op);

    /// Marks the operation as cancelled; the next `run_once` receives it from `drain_cancelled`. If
    /// there is no memory for that, the operation ends by its deadline.
    void cancel(std::shared_ptr<operation> op) noexcept;

    /// Waits for background operations, for `grace` at most, and ends the fallback thread. All
    /// other operations must have ended.
    void shutdown(std::chrono::milliseconds grace);

    /// `admit` counts an operation as outstanding, `retire` no longer counts it. The client calls
    /// `admit` only for operations that it creates itself, and `retire` for every operation that
    /// has ended.
    void admit(const operation& op);
    void retire(const operation& op) noexcept;

    /// The operations cancelled since the last call; `into` must be empty. For the leader.
    void drain_cancelled(std::vector<std::shared_ptr<operation>>& into);

  private:
    const std::string server_name_;
    io_loop loop_;
    std::mutex mutex_;
    std::vector<std::shared_ptr<operation>> cancelled_;
    std::atomic<bool> has_cancelled_{false};
    std::size_t background_outstanding_ = 0;
    std::condition_variable background_drained_;
    std::atomic<std::size_t> outstanding_{0};
};

}  // namespace syncguard::net
