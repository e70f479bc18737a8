/// A client's state of one connection, with the operations in flight.
#pragma once

#include "postgres/client.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace syncguard::postgres {

class connection_node final : public connection::listener {
  public:
    connection_node(client& owner, bool for_priority)
        : reserved_for_priority(for_priority), owner_(owner) {}
    connection_node(const connection_node&) = delete;
    connection_node& operator=(const connection_node&) = delete;
    ~connection_node() override {
        if (conn) conn->close();
    }

    std::shared_ptr<connection> conn;
    const bool reserved_for_priority;
    bool listens = false;      ///< The release listener also uses it.
    bool ready = false;        ///< The handshake is done.
    bool has_replied = false;  ///< It has received a reply to an operation.
    /// In the order of the expected rows.
    operation_list in_flight;
    bool is_batch = false;  ///< Whether `in_flight` is a batch, even one with a single operation.
    time_point sent_at{};

    /// Set while no caller waits for the outstanding answer. After that answer the connection can
    /// be used again.
    struct draining_times {
        time_point replace_at;  ///< From then on another connection may be opened in its place.
        time_point cancel_at;   ///< Then a cancel request is sent.
        time_point close_at;    ///< Then the connection is closed without the answer.
        bool is_cancelled = false;
    };
    std::optional<draining_times> draining;

    [[nodiscard]] bool is_idle() const noexcept {
        return ready && in_flight.empty() && !serves_listener();
    }
    [[nodiscard]] bool serves_listener() const noexcept {
        return listens && owner_.release_listener_.sent_at().has_value();
    }

    /// Adjusts the estimate of the server's clock by a reply to the query that was sent at
    /// `sent_at`. The server has read its clock at some time since then, perhaps after a long wait,
    /// so an estimate that is consistent with the reply remains unchanged.
    void set_server_clock(unix_time server_now) noexcept {
        // Clamped, so that no answer of the server causes an overflow.
        server_now = std::clamp(server_now, unix_time(), unix_time(std::chrono::years(1'000)));
        server_ahead_by_ =
            std::clamp(server_ahead_by_, server_now - at(std::chrono::steady_clock::now()),
                       server_now - at(sent_at));
    }

    /// The time of the server's clock at `when`, too late by the shortest round trip at most.
    [[nodiscard]] unix_time server_time(time_point when) const noexcept {
        return at(when) + server_ahead_by_;
    }

  private:
    void on_ready() override { owner_.handshake(*this); }
    void on_reply(const result_rows& rows) override {
        if (serves_listener()) {
            owner_.release_listener_.on_reply(rows);
        } else {
            owner_.on_reply(*this, rows);
        }
    }
    void on_refused(const server_error& error) override {
        if (serves_listener()) {
            owner_.release_listener_.on_refused();
        } else {
            owner_.on_refused(*this, error);
        }
    }
    void on_closed(const lock_error& error) override {
        if (std::exchange(listens, false)) owner_.release_listener_.on_closed();
        owner_.on_closed(*this, error);
    }
    void on_notification(const std::string& number) override {
        if (listens) owner_.release_listener_.on_notification(number);
    }

    /// A steady time as a unix_time, for differences only.
    [[nodiscard]] static unix_time at(time_point when) noexcept {
        return unix_time(std::chrono::ceil<milliseconds>(when.time_since_epoch()));
    }

    client& owner_;
    milliseconds server_ahead_by_ = milliseconds::max();
};

}  // namespace syncguard::postgres
