/// A lock request as an operation of the client, and the handling of lost replies.
#pragma once

#include "net/priority.hpp"
#include "net/result_promise.hpp"
#include "postgres/client.hpp"
#include "postgres/statements.hpp"

#include <syncguard/engine.hpp>
#include <syncguard/time.hpp>

#include <memory>
#include <optional>
#include <stop_token>
#include <string>

namespace syncguard::postgres {

class lock_operation : public query_operation {
  public:
    /// `handler` is empty for a blocking caller, who then calls `result`.
    lock_operation(const request& req, const call_limits& limits, bool cleanup,
                   std::shared_ptr<const statements> sql, const std::shared_ptr<client>& owner,
                   completion handler);

    /// Lets a stop request cancel the operation, until it has ended.
    void watch_for_stop(const std::stop_token& stop);

    /// The outcome; throws the `lock_error` that ended it.
    [[nodiscard]] outcome result() { return promise_.result(); }

    /// The caller is gone: releases the lock if this operation has acquired it or acquires it
    /// later.
    void detach_caller() noexcept;

  private:
    [[nodiscard]] bool on_response(const row& reply) noexcept override;
    void before_send(unix_time server_deadline) noexcept override;
    [[nodiscard]] bool wants_watch(time_point now) const noexcept override;
    [[nodiscard]] std::optional<watch_request> watch_after(const row& reply) override;
    void on_late_response(const row& reply) noexcept override;
    void on_error(const lock_error& error) noexcept override;
    [[nodiscard]] bool prepare_resend() noexcept override;
    void on_outcome_unknown() noexcept override;
    void deliver() noexcept override;
    [[nodiscard]] std::optional<end_of_lock> known_end_of_lock(
        time_point now) const noexcept override;
    [[nodiscard]] bool uses_reserved_connection() const noexcept override;
    [[nodiscard]] bool has_priority() const noexcept override { return net::has_priority(req_); }

    [[nodiscard]] outcome decoded(const row& reply) const;
    [[nodiscard]] lock_error answer_was_lost(const char* detail) const;
    void forget_copy() noexcept;
    void release_extended() const noexcept;
    void release_in_background() noexcept;

    const request req_;
    /// The key of an acquisition. The view in the request is only valid during the call, which ends
    /// before the background release.
    const std::string key_;
    const std::shared_ptr<const statements> sql_;
    const std::weak_ptr<client> client_;
    const std::string server_name_;
    net::result_promise promise_;
    lease_clock::time_point sent_at_{};
    /// When the first copy that may have been granted the lock was sent.
    std::optional<lease_clock::time_point> first_sent_at_;
    /// After this time, by its own clock, the server does not perform the operation.
    unix_time server_deadline_{};
    /// An earlier copy was sent, with unknown outcome.
    bool outcome_unknown_ = false;
};

}  // namespace syncguard::postgres
