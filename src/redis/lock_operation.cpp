#include "redis/lock_operation.hpp"

#include "redis/lock_protocol.hpp"
#include "redis/server_error.hpp"
#include "util/bounded_wait.hpp"

#include <syncguard/error.hpp>
#include <syncguard/time.hpp>

#include <algorithm>
#include <utility>

namespace syncguard::redis {

using absence = background_release::absence;

namespace {

/// Limit of the time for which a background release is repeated while the server is unreachable.
constexpr milliseconds max_cleanup_time = std::chrono::hours(1);

/// A lock that outlives its reported end is not polled in a busy loop.
constexpr milliseconds min_retry_delay{20};

/// A server whose tracking table is full reports changes of keys that did not change. After such a
/// report the client watches the key again only after a pause, which doubles up to this duration.
constexpr milliseconds max_retry_delay = std::chrono::seconds(1);

/// How long after its connection broke an acquisition may still reach the server.
constexpr milliseconds max_delivery_delay = std::chrono::minutes(1);

/// Whether there may be a lock after this reply to an acquisition.
bool may_have_locked(const resp::value& reply) {
    return reply.is_error() ? !had_no_effect(reply.text()) : reply.integer() > 0;
}

}  // namespace

lock_operation::lock_operation(const request& req, const call_limits& limits, bool cleanup,
                               std::shared_ptr<const key_space> keys,
                               const std::shared_ptr<client>& owner, completion handler)
    : script_operation(encode(req, *keys, cleanup), limits.deadline),
      req_(req),
      keys_(std::move(keys)),
      client_(owner),
      promise_(std::move(handler)) {
    const auto* const acquisition = std::get_if<acquire_request>(&req_);
    if (acquisition != nullptr && acquisition->wait_until != time_point()) {
        lock_key_ = keys_->lock_key(acquisition->key);
    }
}

void lock_operation::watch_for_stop(const std::stop_token& stop) {
    if (!stop.stop_possible()) return;
    promise_.watch_for_stop(stop, [owner = client_, weak = weak_from_this()] {
        const auto alive = owner.lock();
        if (auto self = weak.lock(); self && alive) alive->cancel(std::move(self));
    });
}

void lock_operation::on_response(const script_reply& reply) noexcept {
    static const std::string unknown_server;
    const auto owner = client_.lock();
    promise_.failure = nullptr;
    try {
        promise_.answer = decode(req_, reply, owner ? owner->server_name() : unknown_server);
        promise_.answer.attempt_started_at = sent_at_;
    } catch (...) {
        promise_.failure = std::current_exception();
        // The key may be locked, unless the reply says that nothing was locked.
        if (may_have_locked(reply.value)) release_in_background(absence::final);
    }
}

bool lock_operation::wants_watch(time_point now) const noexcept {
    const auto* const acquisition = std::get_if<acquire_request>(&req_);
    return acquisition != nullptr && acquisition->wait_until > now;
}

void lock_operation::before_send(lease_clock::time_point now) noexcept {
    sent_at_ = now;
}

std::optional<script_operation::watch_request> lock_operation::watch_after(
    const script_reply& reply, bool notified) {
    if (lock_key_.empty() || reply.value.is_error() || may_have_locked(reply.value)) return {};
    const auto now = std::chrono::steady_clock::now();
    if (!wants_watch(now)) return {};
    on_response(reply);
    // The decoder has refused times whose sum overflows.
    if (promise_.failure) return {};
    const milliseconds lasts = promise_.answer.free_within.value_or(milliseconds::max());
    const auto lock_ends = now + bounded_wait(std::max(lasts, min_retry_delay));
    const auto until = std::min(std::get<acquire_request>(req_).wait_until, lock_ends);
    // A lock that is live only because of the tolerance has no time left: its expiry counts as
    // unknown.
    const auto expires_at = lasts > milliseconds{0} ? reply.server_time + lasts : unix_time();
    const bool is_same_lock = std::exchange(seen_expiry_, expires_at) == expires_at;
    if (!is_same_lock) retry_delay_ = milliseconds{0};
    if (!notified || !is_same_lock) return watch_request{.key = lock_key_, .until = until};
    retry_delay_ = std::clamp(2 * retry_delay_, min_retry_delay, max_retry_delay);
    return watch_request{
        .key = lock_key_, .until = std::min(until, now + retry_delay_), .tracks_key = false};
}

void lock_operation::on_error(const lock_error& error) noexcept {
    promise_.failure = std::make_exception_ptr(error);
}

void lock_operation::on_abandoned() noexcept {
    // If the connection remains in use, the release is executed before the caller's next
    // operations. On another connection it may overtake the acquisition; then the late answer shows
    // whether the key was locked.
    release_in_background(absence::final);
}

void lock_operation::on_late_response(const script_reply& reply) noexcept {
    if (may_have_locked(reply.value)) release_in_background(absence::final);
}

void lock_operation::on_outcome_unknown() noexcept {
    release_in_background(absence::may_appear_later);
}

void lock_operation::detach_caller() noexcept {
    if (promise_.detach_caller()) release_in_background(absence::final);
}

void lock_operation::deliver() noexcept {
    if (promise_.deliver()) release_in_background(absence::final);
}

void lock_operation::release_in_background(absence not_found) noexcept {
    const auto* const acquisition = std::get_if<acquire_request>(&req_);
    const auto owner = client_.lock();
    if (acquisition == nullptr || !owner) return;
    try {
        auto lasts = acquisition->ttl + time_tolerance;
        if (not_found == absence::may_appear_later) lasts += max_delivery_delay;
        const auto give_up_at =
            std::chrono::steady_clock::now() + std::min(lasts, max_cleanup_time);
        owner->submit(std::make_shared<background_release>(acquisition->id, give_up_at, not_found,
                                                           keys_, client_));
    } catch (const std::exception&) {  // the lock ends with its TTL
    }
}

}  // namespace syncguard::redis
