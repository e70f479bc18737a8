/// A request on its way through the client, and what becomes of it if its answer is lost.
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

class lock_operation : public operation {
  public:
    /// `done` is empty for a caller who waits and then calls `result`.
    lock_operation(const request& what, const call_limits& limits, bool cleanup,
                   std::shared_ptr<const statements> sql, const std::shared_ptr<client>& by,
                   completion done);

    /// Lets a stop request cancel it, until it has ended.
    void watch_for_stop(const std::stop_token& stop);

    /// The outcome; throws the `lock_error` that ended it.
    [[nodiscard]] outcome result() { return inquiry_.result(); }

    /// Nobody will ask for the outcome: what was acquired, or will have been, is to be released.
    void abandon() noexcept;

  private:
    [[nodiscard]] bool answer(const row& reply) noexcept override;
    void about_to_be_sent(unix_time server_deadline) noexcept override;
    [[nodiscard]] bool lingers(time_point now) const noexcept override;
    [[nodiscard]] std::optional<patience> wait_after(const row& reply) override;
    void answer_late(const row& reply) noexcept override;
    void fail(const lock_error& why) noexcept override;
    [[nodiscard]] bool ask_again() noexcept override;
    void lose() noexcept override;
    void announce() noexcept override;
    [[nodiscard]] std::optional<end_of_lock> known_end_of_lock(
        time_point now) const noexcept override;
    [[nodiscard]] bool is_urgent() const noexcept override;
    [[nodiscard]] bool has_priority() const noexcept override { return net::has_priority(what_); }

    [[nodiscard]] outcome decoded(const row& reply) const;
    [[nodiscard]] lock_error answer_was_lost(const char* what_is_known) const;
    void forget_copy() noexcept;
    void release_extended() const noexcept;
    void undo() noexcept;

    const request what_;
    /// Of an acquisition. The request's own view ends with the call, before its undoing does.
    const std::string key_;
    const std::shared_ptr<const statements> sql_;
    const std::weak_ptr<client> client_;
    const std::string where_;
    net::inquiry inquiry_;
    lease_clock::time_point sent_at_{};
    /// Of the first copy that may have been granted the lock.
    std::optional<lease_clock::time_point> first_sent_at_;
    /// The server does not perform it later, by its own clock.
    unix_time server_deadline_{};
    /// It was sent before, and what came of that is not known.
    bool in_doubt_ = false;
};

}  // namespace syncguard::postgres
