/// A lock request as an operation of the client, and the background release after an acquisition of
/// unknown outcome.
#pragma once

#include "net/priority.hpp"
#include "net/result_promise.hpp"
#include "redis/background_release.hpp"
#include "redis/client.hpp"
#include "redis/key_space.hpp"

#include <syncguard/engine.hpp>
#include <syncguard/time.hpp>

#include <memory>
#include <optional>
#include <stop_token>
#include <string>

namespace syncguard::redis {

class lock_operation : public script_operation {
  public:
    /// `handler` is empty for a blocking caller, who then calls `result`.
    lock_operation(const request& req, const call_limits& limits, bool cleanup,
                   std::shared_ptr<const key_space> keys, const std::shared_ptr<client>& owner,
                   completion handler);

    /// Lets a stop request cancel the operation, until it has ended.
    void watch_for_stop(const std::stop_token& stop);

    /// The outcome; throws the `lock_error` that ended it.
    [[nodiscard]] outcome result() { return promise_.result(); }

    /// The caller is gone: releases the lock if this operation has acquired it or acquires it
    /// later.
    void detach_caller() noexcept;

  private:
    void on_response(const script_reply& reply) noexcept override;
    void on_error(const lock_error& error) noexcept override;
    void on_abandoned() noexcept override;
    void on_late_response(const script_reply& reply) noexcept override;
    void on_outcome_unknown() noexcept override;
    void deliver() noexcept override;
    [[nodiscard]] bool has_handler() const noexcept override { return promise_.has_handler(); }
    [[nodiscard]] bool has_priority() const noexcept override { return net::has_priority(req_); }
    [[nodiscard]] bool wants_watch(time_point now) const noexcept override;
    void before_send(lease_clock::time_point now) noexcept override;
    [[nodiscard]] std::optional<watch_request> watch_after(const script_reply& reply,
                                                           bool notified) override;

    void release_in_background(background_release::absence not_found) noexcept;

    const request req_;
    const std::shared_ptr<const key_space> keys_;
    const std::weak_ptr<client> client_;
    net::result_promise promise_;
    lease_clock::time_point sent_at_;
    /// The Redis key of an acquisition that may watch. The key in the request is invalid after the
    /// caller has returned.
    std::string lock_key_;
    unix_time seen_expiry_{};      ///< Expiry of the lock that it waits for, by the last answer.
    milliseconds retry_delay_{0};  ///< The last delay before it watched the key again.
};

}  // namespace syncguard::redis
