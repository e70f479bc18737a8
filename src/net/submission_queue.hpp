/// Thread-safe entry to a client: limits outstanding operations, collects cancellations, drains
/// background operations at shutdown.
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

    /// Whether it must be done though no caller waits for it: it outlasts failures to connect until
    /// its deadline, and the client's shutdown waits for it, for a while.
    [[nodiscard]] virtual bool is_background() const noexcept { return false; }

    /// Whether it extends or releases an existing lock, or is a background operation. The client
    /// admits such an operation however many others wait, and sends it before them.
    [[nodiscard]] virtual bool has_priority() const noexcept { return is_background(); }

    /// Whether its caller has cancelled it.
    [[nodiscard]] bool cancel_requested() const noexcept { return cancel_requested_; }

  private:
    friend class submission_queue;
    std::atomic<bool> cancel_requested_{false};
};

/// Thread safety: `execute`, `submit` and `cancel` may be called concurrently; members that say so
/// are for the leader.
class submission_queue {
  public:
    /// `server_name` is how messages name the server.
    submission_queue(io_loop::handler& io_handler, std::string server_name);

    [[nodiscard]] io_loop& loop() noexcept { return loop_; }

    /// Returns when the operation has been carried out; the calling thread does the I/O if no other
    /// thread does. Throws `lock_error` (rate_limited) if too many operations wait and this one has
    /// no priority.
    void execute(const std::shared_ptr<operation>& op);

    /// Returns at once. Throws as `execute`, or `std::system_error` if no thread can be started;
    /// then nothing was begun.
    void submit(const std::shared_ptr<operation>& op);

    /// Marks the operation as cancelled; the next `run_once` finds it in `drain_cancelled`.
    void cancel(std::shared_ptr<operation> op) noexcept;

    /// Waits for background operations, for a while, and ends the fallback thread. Others have
    /// ended.
    void shutdown(std::chrono::milliseconds grace);

    /// For operations that the client itself creates. The leader also retires each operation that
    /// it has carried out.
    void admit(const operation& op);
    void retire(const operation& op) noexcept;

    /// What was cancelled since the last call. `into` is empty. For the leader.
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
