/// Firestore client: runs the operations of many callers as coroutines on one event loop, ends them
/// at their deadlines, and reports their results.
///
/// It does not know what the operations do.
#pragma once

#include "firestore/lock_store.hpp"
#include "firestore/service.hpp"
#include "http/call_context.hpp"
#include "net/socket_registry.hpp"
#include "net/submission_queue.hpp"

#include <syncguard/error.hpp>
#include <syncguard/firestore.hpp>

#include <boost/asio/awaitable.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

namespace syncguard::firestore {

using time_point = std::chrono::steady_clock::time_point;

/// An operation that passes through the client. The leader calls its members.
class coroutine_operation : public net::operation,
                            public std::enable_shared_from_this<coroutine_operation> {
  public:
    explicit coroutine_operation(time_point deadline) : operation(deadline) {}

    /// Performs the operation. Throws if it fails, at its deadline at the latest.
    [[nodiscard]] virtual boost::asio::awaitable<void> run(lock_store& store,
                                                           net::call_context& ctx) = 0;

    /// Called with the exception that `run` threw, or that prevented the call of `run`.
    virtual void fail(std::exception_ptr error) noexcept = 0;

    /// The operation is done and the client no longer uses it: notifies the caller.
    virtual void deliver() noexcept {}

    [[nodiscard]] time_point deadline() const noexcept { return deadline_; }

  private:
    friend class client;
    std::shared_ptr<net::call_context> ctx_;
};

/// Thread safety: all public members may be called concurrently.
class client : public net::io_loop::handler {
  public:
    client(service_config config, options opts, warning_handler on_warning);
    ~client() override = default;

    /// Reads the TLS files, which otherwise happens with the first connection. Call it before any
    /// other use, to detect errors early. Throws `lock_error` (invalid_argument) if they cannot be
    /// used.
    void prepare();

    /// Returns when the operation has ended; the calling thread does the I/O if no other thread
    /// does.
    void execute(const std::shared_ptr<coroutine_operation>& op);

    /// Returns at once. Throws `lock_error` (rate_limited) if too many operations wait, or
    /// `std::system_error` if no thread can be started; the operation was not submitted then.
    void submit(const std::shared_ptr<coroutine_operation>& op);

    /// Ends an operation with `aborted`, unless it has ended.
    void cancel(std::shared_ptr<coroutine_operation> op) noexcept;

    /// Waits for background operations, for `grace` at most, cancels the rest, and ends the
    /// client's thread. All other operations must have ended. No member may be called after it.
    void shutdown(std::chrono::milliseconds grace);

    /// Whether shutdown has begun: then background operations pause only briefly.
    [[nodiscard]] bool is_shutting_down() const noexcept { return shutting_down_; }

    [[nodiscard]] net::io_loop& loop() noexcept { return submissions_.loop(); }
    [[nodiscard]] net::socket_registry& sockets() noexcept { return sockets_; }

  private:
    step_result run_once() override;
    [[nodiscard]] bool has_outstanding_work() const override;

    class operation_guard;

    void drain_submissions();
    void admit(const std::shared_ptr<coroutine_operation>& op);
    [[nodiscard]] boost::asio::awaitable<void> run_operation(operation_guard guard);
    void finish(const std::shared_ptr<coroutine_operation>& op) noexcept;
    void deliver_completions();
    void cancel_running();

    const service_config config_;
    const options opts_;
    const warning_handler on_warning_;

    // For any thread.
    std::atomic<bool> shutting_down_{false};
    net::socket_registry sockets_;

    // Only for the leader.
    net::lazy_tls_context tls_;
    net::submission_queue submissions_;
    service server_;
    lock_store locks_;
    std::vector<std::shared_ptr<net::task>> submitted_;
    std::unordered_set<std::shared_ptr<coroutine_operation>> running_;
    std::vector<std::shared_ptr<coroutine_operation>> completed_;
    bool has_ended_pauses_ = false;
};

}  // namespace syncguard::firestore
