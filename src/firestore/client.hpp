/// Many callers, one loop: starts operations, ends them in time, and tells who waits.
///
/// It knows that operations exist, not what they do.
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

/// One operation on its way. Its members are called on the thread that drives the client.
class operation : public net::order, public std::enable_shared_from_this<operation> {
  public:
    explicit operation(time_point deadline) : order(deadline) {}

    /// Does it. Throws what it fails with, at its deadline at the latest.
    [[nodiscard]] virtual boost::asio::awaitable<void> run(lock_store& store,
                                                           net::interruption& limits) = 0;

    /// What `run` threw, or what kept it from being called.
    virtual void fail(std::exception_ptr why) noexcept = 0;

    /// It has ended and the client is done with it: whoever is interested may be told.
    virtual void announce() noexcept {}

    [[nodiscard]] time_point deadline() const noexcept { return deadline_; }

  private:
    friend class client;
    std::shared_ptr<net::interruption> limits_;
};

/// Thread safety: all public members may be called concurrently.
class client : public net::driven {
  public:
    client(access how, options store, warning_handler on_warning);
    ~client() override = default;

    /// Reads the files for TLS, which else happens when they are needed: before any other use, to
    /// know early. Throws `lock_error` (invalid_argument) if they cannot be used.
    void prepare();

    /// Returns when the operation has ended; the calling thread does the I/O if no other does.
    void perform(const std::shared_ptr<operation>& what);

    /// Returns at once. Throws `lock_error` (rate_limited) if too many wait, or `std::system_error`
    /// if no thread can be started; then nothing was begun.
    void start(const std::shared_ptr<operation>& what);

    /// Ends an operation with `aborted`, unless it has ended.
    void cancel(std::shared_ptr<operation> what) noexcept;

    /// Waits for operations that persist, for a while, and ends everything. Other operations have
    /// ended. Nothing may be called after it.
    void end(std::chrono::milliseconds patience);

    /// Whether the end has come: whoever persists does not pause for long.
    [[nodiscard]] bool is_ending() const noexcept { return ending_; }

    [[nodiscard]] net::io_driver& driver() noexcept { return desk_.driver(); }
    [[nodiscard]] net::shown_sockets& sockets() noexcept { return shown_sockets_; }

  private:
    wishes step() override;
    [[nodiscard]] bool has_work() const override;

    class course;

    void take_news();
    void admit(const std::shared_ptr<operation>& what);
    [[nodiscard]] boost::asio::awaitable<void> carry_out(course mine);
    void set_ended(const std::shared_ptr<operation>& what) noexcept;
    void announce_ended();
    void end_what_is_left();

    const access how_;
    const options store_;
    const warning_handler on_warning_;

    // What any thread may touch.
    std::atomic<bool> ending_{false};
    net::shown_sockets shown_sockets_;

    // What only the driving thread touches.
    net::lazy_tls_context tls_;
    net::front_desk desk_;
    service server_;
    lock_store locks_;
    std::vector<std::shared_ptr<net::task>> news_;
    std::unordered_set<std::shared_ptr<operation>> running_;
    std::vector<std::shared_ptr<operation>> ended_;
    bool has_hurried_ = false;
};

}  // namespace syncguard::firestore
