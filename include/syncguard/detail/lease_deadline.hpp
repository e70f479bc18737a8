/// Computes the deadline until which a lease may rely on its lock. Pure: no clock, no I/O. Not part
/// of the API.
#pragma once

#include <syncguard/time.hpp>

#include <cstdint>
#include <vector>

namespace syncguard::detail {

/// The margin that is subtracted from a TTL, because the store's clock may run faster than this
/// host's: `clock_drift` of the TTL plus 2 ms for rounding, at most half the TTL.
[[nodiscard]] lease_clock::duration drift_margin(milliseconds ttl, double clock_drift) noexcept;

/// A lower bound of the lock's end in the store, computed from the extensions that were sent and
/// answered.
///
/// The extension that the store executed last decides when the lock ends: its execution time plus
/// its TTL. An answered extension was executed once, between its sending and its answer. An
/// extension that is in flight, or whose outcome is unknown because its call failed, may be
/// executed at any later time or never. If the store executes extensions in order, an extension
/// whose call has failed is not executed after an answered extension that was sent later. For each
/// extension that may be the last one, the lock ends no earlier than `max(its send time, send time
/// of the latest answered extension) + its TTL - margin`: the last execution is not earlier than
/// the send time of any answered extension. The bound is the smallest of these.
///
/// Not thread-safe.
class lease_deadline {
  public:
    using time_point = lease_clock::time_point;
    using ticket = std::uint32_t;

    /// The lock was granted by a request that was sent at `sent_at`.
    lease_deadline(time_point sent_at, milliseconds ttl, double clock_drift) noexcept;

    /// Call it before an extension is sent. From now on the store may execute it.
    [[nodiscard]] ticket send(time_point now, milliseconds ttl);

    /// The store has executed the extension.
    void acknowledge(ticket id, time_point now) noexcept;

    /// The call failed: the store may execute the extension later, or not at all.
    void mark_unknown(ticket id) noexcept;

    /// The call failed, and the store executes extensions in order: the extension may be executed
    /// until an extension that is sent after `now` is answered, or not at all.
    void mark_failed(ticket id, time_point now) noexcept;

    [[nodiscard]] time_point deadline() const noexcept;

    /// The send time of the latest answered extension, or of the acquisition.
    [[nodiscard]] time_point renewed_at() const noexcept { return renewed_at_; }

  private:
    enum class state : std::uint8_t { in_flight, unknown, failed, acknowledged };

    struct extension {
        time_point sent_at;
        time_point answered_at{};  ///< Or when its call failed.
        milliseconds ttl;
        ticket id;
        state progress;
    };

    [[nodiscard]] time_point end_if_last(const extension& candidate) const noexcept;
    [[nodiscard]] extension& find(ticket id) noexcept;

    extension latest_;  ///< The latest acknowledged extension.
    /// In flight, unknown, failed, or acknowledged and overlapping with `latest_`.
    std::vector<extension> others_;
    time_point renewed_at_;
    double clock_drift_;
    ticket next_ticket_ = 1;
};

}  // namespace syncguard::detail
