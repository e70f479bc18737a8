/// A connection as its client sees it: with the calls that wait for their answers.
#pragma once

#include "client.hpp"

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
    bool retired = false;
    time_point keep_until{};  ///< Once it is retired.
    /// The operations of each call, in the order in which the answers will come.
    std::deque<batch> in_flight;

    [[nodiscard]] std::size_t operations() const noexcept {
        std::size_t sum = 0;
        for (const auto& each : in_flight)
            sum += each.size();
        return sum;
    }

  private:
    void on_ready() override { ready = true; }
    void on_reply(const resp::value& reply) override { owner_.on_reply(*this, reply); }
    void on_closed(const lock_error& why) override { owner_.on_closed(*this, why); }

    client& owner_;
};

}  // namespace syncguard::redis
