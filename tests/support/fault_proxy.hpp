/// A TCP proxy on 127.0.0.1 that injects faults chosen by a test.
#pragma once

#include "support/owned_fd.hpp"

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {

/// The direction of bytes.
enum class direction { to_server, to_client };

/// How a connection ends for both of its sides.
enum class closing {
    /// With FIN: the peer reads the forwarded bytes, then the end of the stream.
    orderly,
    /// With RST: the peer reads the forwarded bytes, then "connection reset".
    reset,
};

/// Forwards every connection to a port of 127.0.0.1, unchanged unless a fault is set: in order,
/// with the end of a stream and with a reset. If the target refuses a connection, the proxy resets
/// the client's.
///
/// All members may be called from any thread at any time. Faults apply to existing and new
/// connections until changed; each takes effect before its call returns.
class fault_proxy {
  public:
    explicit fault_proxy(std::uint16_t target_port);
    fault_proxy(const fault_proxy&) = delete;
    fault_proxy& operator=(const fault_proxy&) = delete;
    ~fault_proxy();

    [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

    /// Delays bytes that arrive from now on by this time. 0 ends the delay; bytes that are already
    /// delayed keep their time.
    void delay(direction way, std::chrono::milliseconds time);

    /// Forwards nothing and reads nothing: senders block when the system's buffers are full.
    /// Nothing is lost; `resume` continues. The end of a stream is held back too.
    void stall(direction way);
    void resume(direction way);

    /// Reads and drops bytes; the sender does not notice. The end of a stream is still forwarded.
    void discard(direction way, bool on = true);

    /// Cuts the connection that forwards the `bytes`th byte from now on, right after that byte; 0
    /// means before the next byte. Bytes are counted over all connections. Bytes on their way in
    /// the other direction are lost. Cuts one connection only; a new call replaces the previous
    /// one.
    void arm_cut(direction way, std::uint64_t bytes, closing mode = closing::orderly);
    void disarm_cut();

    /// Forwards one byte with each system call, and waits between calls. Without a pause the
    /// receiver may read several bytes at once.
    void slice(direction way, bool on = true,
               std::chrono::microseconds pause = std::chrono::microseconds(0));

    /// Forwards new connections to another port. Existing connections are not changed.
    void retarget(std::uint16_t port);

    /// Accepts new connections and closes them at once. Existing connections are not changed.
    void refuse_connections(bool on = true);

    /// Cuts all existing connections.
    void drop_all(closing mode = closing::orderly);

    /// Connections accepted so far, without refused ones.
    [[nodiscard]] std::uint64_t connections() const;
    [[nodiscard]] std::uint64_t refused() const;
    /// Connections that are open now.
    [[nodiscard]] std::size_t open_connections() const;
    /// Bytes forwarded so far.
    [[nodiscard]] std::uint64_t forwarded(direction way) const;
    /// Bytes dropped by `discard` so far.
    [[nodiscard]] std::uint64_t discarded(direction way) const;
    /// Connections cut by `arm_cut` so far.
    [[nodiscard]] std::uint64_t cuts() const;

  private:
    using clock = std::chrono::steady_clock;

    struct way_settings {
        std::chrono::milliseconds delay{0};
        bool stalled = false;
        bool discarding = false;
        bool slicing = false;
        std::chrono::microseconds slice_pause{0};
        std::uint64_t forwarded = 0;
        std::uint64_t discarded = 0;
    };
    struct armed_cut {
        direction way;
        std::uint64_t bytes_left;
        closing mode;
    };
    struct connection;
    struct flow;

    [[nodiscard]] way_settings& settings(direction way);
    [[nodiscard]] const way_settings& settings(direction way) const;

    template <class Change>
    void change(Change apply);
    void run();
    void wait_for_work(std::unique_lock<std::mutex>& lock);
    void accept_all();
    /// `pump`, `read` and `write` return how to close the connection, if it must be closed.
    [[nodiscard]] std::optional<closing> pump(connection& conn);
    [[nodiscard]] std::optional<closing> read(connection& conn, direction way);
    [[nodiscard]] std::optional<closing> write(connection& conn, direction way);

    owned_fd listener_;
    std::uint16_t target_port_;
    std::uint16_t port_;
    owned_fd wake_;

    mutable std::mutex mutex_;
    std::condition_variable dropped_;
    std::array<way_settings, 2> settings_;
    std::optional<armed_cut> cut_;
    std::optional<closing> drop_;
    bool refusing_ = false;
    bool stopping_ = false;
    std::uint64_t accepted_ = 0;
    std::uint64_t refused_ = 0;
    std::uint64_t cuts_ = 0;
    std::list<connection> connections_;
    std::thread thread_;
};

}  // namespace syncguard::test
