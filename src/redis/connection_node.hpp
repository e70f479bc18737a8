/// A client's state of one connection, with the calls in flight.
#pragma once

#include "redis/client.hpp"

#include <chrono>
#include <deque>
#include <memory>
#include <vector>

namespace syncguard::redis {

class connection_node final : public connection::listener {
  public:
    explicit connection_node(client& owner) : owner_(owner) {}
    connection_node(const connection_node&) = delete;
    connection_node& operator=(const connection_node&) = delete;
    ~connection_node() override {
        if (conn) conn->close();
    }

    std::shared_ptr<connection> conn;
    bool ready = false;
    /// Whether the server has the script cached. Cleared by a NOSCRIPT error.
    bool script_is_known = true;
    /// The server refused a call, which will be sent again, and calls sent after it are not
    /// answered yet. Nothing is sent until they are, so that operations of other refused calls keep
    /// their order.
    bool resends_first = false;
    /// An operation was not answered by its deadline: nothing is sent until all outstanding answers
    /// have come.
    bool has_late_reply = false;
    /// The time of the latest answer, or of the first call that was sent when no answer was
    /// outstanding.
    time_point silent_since{};
    bool draining = false;
    time_point drain_until{};  ///< If `draining`.
    enum class tracking_state { off, on, unsupported };
    /// Whether the server reports changes of watched keys.
    tracking_state tracking = tracking_state::off;
    /// In the order of the expected answers.
    std::deque<in_flight_call> in_flight;

    /// Whether nothing may be sent until the calls in flight are answered.
    [[nodiscard]] bool must_await_replies() const noexcept {
        return (resends_first || has_late_reply) && !in_flight.empty();
    }

    [[nodiscard]] std::size_t operations() const noexcept {
        std::size_t sum = 0;
        for (const auto& each : in_flight)
            sum += each.operations.size();
        return sum;
    }

  private:
    void on_ready() override {
        ready = true;
        if (!conn->supports_push()) tracking = tracking_state::unsupported;
    }
    void on_reply(const resp::value& reply) override { owner_.on_reply(*this, reply); }
    void on_push(const resp::value& message) override { owner_.on_push(message); }
    void on_closed(const lock_error& error) override { owner_.on_closed(*this, error); }

    client& owner_;
};

}  // namespace syncguard::redis
