/// A request on its way through the client, and the release that follows an acquisition whose fate
/// is unknown.
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

class lock_operation : public operation {
  public:
    /// `done` is empty for a caller who waits and then calls `result`.
    lock_operation(const request& what, const call_limits& limits, bool cleanup,
                   std::shared_ptr<const key_space> keys, const std::shared_ptr<client>& by,
                   completion done);

    /// Lets a stop request cancel it, until it has ended.
    void watch_for_stop(const std::stop_token& stop);

    /// The outcome; throws the `lock_error` that ended it.
    [[nodiscard]] outcome result() { return inquiry_.result(); }

    /// Nobody will ask for the outcome: what was acquired, or will have been, is to be released.
    void abandon() noexcept;

  private:
    void answer(const script_reply& reply) noexcept override;
    void fail(const lock_error& why) noexcept override;
    void given_up_when_sent() noexcept override;
    void answer_late(const script_reply& reply) noexcept override;
    void lose() noexcept override;
    void announce() noexcept override;
    [[nodiscard]] bool calls_back() const noexcept override { return inquiry_.calls_back(); }
    [[nodiscard]] bool has_priority() const noexcept override { return net::has_priority(what_); }
    [[nodiscard]] bool lingers(time_point now) const noexcept override;
    void about_to_be_sent(lease_clock::time_point now) noexcept override;
    [[nodiscard]] std::optional<patience> wait_after(const script_reply& reply,
                                                     bool notified) override;

    void undo(background_release::absence not_found) noexcept;

    const request what_;
    const std::shared_ptr<const key_space> keys_;
    const std::weak_ptr<client> client_;
    net::inquiry inquiry_;
    lease_clock::time_point sent_at_;
    /// Of an acquisition that lingers. The request's key is gone where its caller has given up.
    std::string lock_key_;
    unix_time seen_expiry_{};  ///< Of the lock that it waits for, by the last answer.
    milliseconds pause_{0};    ///< The last one before it watched the key again.
};

}  // namespace syncguard::redis
