/// A connection as its client sees it: with the operation that waits for its answer.
#pragma once

#include "postgres/client.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace syncguard::postgres {

class link final : public connection::listener {
  public:
    link(client& owner, bool for_urgent_ones) : reserved(for_urgent_ones), owner_(owner) {}
    link(const link&) = delete;
    link& operator=(const link&) = delete;
    ~link() override {
        if (wire) wire->close();
    }

    std::shared_ptr<connection> wire;
    const bool reserved;
    bool listens = false;  ///< The lookout uses it, too.
    bool ready = false;    ///< It has been greeted.
    bool proved = false;   ///< It has brought an answer to an operation.
    /// In the order of the rows that will come.
    operation_list busy_with;
    bool with_many_alike = false;  ///< That is what it is busy with, be it one.
    time_point busy_since{};

    /// Set while no caller waits for the answer. When the answer has come, the connection can be
    /// used again.
    struct draining_times {
        time_point replace_at;  ///< Then another connection may be opened in its place.
        time_point cancel_at;   ///< Then the server is asked to stop.
        time_point close_at;    ///< Then the connection is closed without the answer.
        bool is_cancelled = false;
    };
    std::optional<draining_times> draining;

    [[nodiscard]] bool is_idle() const noexcept {
        return ready && busy_with.empty() && !is_asked_by_lookout();
    }
    [[nodiscard]] bool is_asked_by_lookout() const noexcept {
        return listens && owner_.lookout_.busy_since().has_value();
    }

    /// The server's clock as an answer told it, to a question that was sent at `busy_since`. The
    /// server has read it since then, perhaps after a long wait: what fits to that, stays.
    void set_server_clock(unix_time told) noexcept {
        // Limited, so that no answer of the server causes an overflow.
        told = std::clamp(told, unix_time(), unix_time(std::chrono::years(1'000)));
        server_ahead_by_ = std::clamp(server_ahead_by_, told - at(std::chrono::steady_clock::now()),
                                      told - at(busy_since));
    }

    /// What the server's clock shows then; at most the shortest round trip more.
    [[nodiscard]] unix_time server_time(time_point when) const noexcept {
        return at(when) + server_ahead_by_;
    }

  private:
    void on_ready() override { owner_.greet(*this); }
    void on_reply(const row_list& rows) override {
        if (is_asked_by_lookout()) {
            owner_.lookout_.on_reply(rows);
        } else {
            owner_.on_reply(*this, rows);
        }
    }
    void on_refused(const refusal& why) override {
        if (is_asked_by_lookout()) {
            owner_.lookout_.on_refused();
        } else {
            owner_.on_refused(*this, why);
        }
    }
    void on_closed(const lock_error& why) override {
        if (std::exchange(listens, false)) owner_.lookout_.on_closed();
        owner_.on_closed(*this, why);
    }
    void on_notification(const std::string& number) override {
        if (listens) owner_.lookout_.on_notification(number);
    }

    /// Two steady times are as far apart as these.
    [[nodiscard]] static unix_time at(time_point when) noexcept {
        return unix_time(std::chrono::ceil<milliseconds>(when.time_since_epoch()));
    }

    client& owner_;
    milliseconds server_ahead_by_ = milliseconds::max();
};

}  // namespace syncguard::postgres
