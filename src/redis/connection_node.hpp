/// A connection as its client sees it: with the calls that wait for their answers.
#pragma once

#include "redis/client.hpp"

#include <chrono>
#include <deque>
#include <memory>
#include <vector>

namespace syncguard::redis {

class link final : public connection::listener {
  public:
    explicit link(client& owner) : owner_(owner) {}
    link(const link&) = delete;
    link& operator=(const link&) = delete;
    ~link() override {
        if (wire) wire->close();
    }

    std::shared_ptr<connection> wire;
    bool ready = false;
    /// Cleared by the server's saying so.
    bool script_is_known = true;
    /// The server refused a call, which is to be sent again, and calls that were sent after it are
    /// not answered yet: nothing is sent until they are, so that those also refused keep their
    /// order.
    bool drains = false;
    /// An operation was not answered by its deadline: nothing is sent until all answers have come.
    bool is_late = false;
    /// The time of the latest answer, or of the first call that was sent when no answer was
    /// outstanding.
    time_point silent_since{};
    bool retired = false;
    time_point keep_until{};  ///< Once it is retired.
    enum class tracking { not_asked_for, on, refused };
    /// Whether the server tells of changes of the keys that it is asked to watch.
    tracking tracks = tracking::not_asked_for;
    /// In the order in which the answers will come.
    std::deque<sent_call> in_flight;

    /// Whether nothing may be sent until the calls under way are answered.
    [[nodiscard]] bool must_drain() const noexcept {
        return (drains || is_late) && !in_flight.empty();
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
        if (!wire->carries_pushes()) tracks = tracking::refused;
    }
    void on_reply(const resp::value& reply) override { owner_.on_reply(*this, reply); }
    void on_push(const resp::value& news) override { owner_.on_push(news); }
    void on_closed(const lock_error& why) override { owner_.on_closed(*this, why); }

    client& owner_;
};

}  // namespace syncguard::redis
