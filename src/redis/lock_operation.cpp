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

/// Nothing is remembered for longer on behalf of a server that does not come back.
constexpr milliseconds longest_memory = std::chrono::hours(1);

/// A lock that outlives what was said of it is not asked for in a busy loop.
constexpr milliseconds shortest_pause{20};

/// A server whose tracking table is full reports changes of keys that did not change. After such a
/// report the client watches the key again only after a pause, which doubles up to this duration.
constexpr milliseconds longest_pause = std::chrono::seconds(1);

/// How long after its connection broke an acquisition may still reach the server.
constexpr milliseconds longest_delivery = std::chrono::minutes(1);

/// Whether this answer to an acquisition leaves it possible that there is a lock now.
bool may_have_locked(const resp::value& reply) {
    return reply.is_error() ? !is_refusal(reply.text()) : reply.integer() > 0;
}

}  // namespace

lock_operation::lock_operation(const request& what, const call_limits& limits, bool cleanup,
                               std::shared_ptr<const key_space> keys,
                               const std::shared_ptr<client>& by, completion done)
    : operation(encode(what, *keys, cleanup), limits.deadline),
      what_(what),
      keys_(std::move(keys)),
      client_(by),
      inquiry_(std::move(done)) {
    const auto* const acquisition = std::get_if<acquire_request>(&what_);
    if (acquisition != nullptr && acquisition->linger_until != time_point()) {
        lock_key_ = keys_->lock_key(acquisition->key);
    }
}

void lock_operation::watch_for_stop(const std::stop_token& stop) {
    if (!stop.stop_possible()) return;
    inquiry_.watch_for_stop(stop, [by = client_, weak = weak_from_this()] {
        const auto alive = by.lock();
        if (auto self = weak.lock(); self && alive) alive->cancel(std::move(self));
    });
}

void lock_operation::answer(const script_reply& reply) noexcept {
    static const std::string nowhere;
    const auto by = client_.lock();
    inquiry_.failure = nullptr;
    try {
        inquiry_.answer = decode(what_, reply, by ? by->where() : nowhere);
        inquiry_.answer.attempt_began = sent_at_;
    } catch (...) {
        inquiry_.failure = std::current_exception();
        // Not an error from before the script writes, or no memory to take the answer.
        if (may_have_locked(reply.value)) undo(absence::final);
    }
}

bool lock_operation::lingers(time_point now) const noexcept {
    const auto* const acquisition = std::get_if<acquire_request>(&what_);
    return acquisition != nullptr && acquisition->linger_until > now;
}

void lock_operation::about_to_be_sent(lease_clock::time_point now) noexcept {
    sent_at_ = now;
}

std::optional<operation::patience> lock_operation::wait_after(const script_reply& reply,
                                                              bool notified) {
    if (lock_key_.empty() || reply.value.is_error() || may_have_locked(reply.value)) return {};
    const auto now = std::chrono::steady_clock::now();
    if (!lingers(now)) return {};
    answer(reply);
    // The decoder has refused times whose sum overflows.
    if (inquiry_.failure) return {};
    const milliseconds lasts = inquiry_.answer.locked_for.value_or(milliseconds::max());
    const auto lock_ends = now + bounded_wait(std::max(lasts, shortest_pause));
    const auto until = std::min(std::get<acquire_request>(what_).linger_until, lock_ends);
    // A lock that is live only because of the tolerance has no time left: its expiry counts as
    // unknown.
    const auto expires_at = lasts > milliseconds{0} ? reply.server_time + lasts : unix_time();
    const bool is_same_lock = std::exchange(seen_expiry_, expires_at) == expires_at;
    if (!is_same_lock) pause_ = milliseconds{0};
    if (!notified || !is_same_lock) return patience{.key = lock_key_, .until = until};
    pause_ = std::clamp(2 * pause_, shortest_pause, longest_pause);
    return patience{.key = lock_key_, .until = std::min(until, now + pause_), .watches = false};
}

void lock_operation::fail(const lock_error& why) noexcept {
    inquiry_.failure = std::make_exception_ptr(why);
}

void lock_operation::given_up_when_sent() noexcept {
    // On a connection that goes on to be used the release comes before whatever the caller does
    // next; on another it may overtake the acquisition, whose answer then tells.
    undo(absence::final);
}

void lock_operation::answer_late(const script_reply& reply) noexcept {
    if (may_have_locked(reply.value)) undo(absence::final);
}

void lock_operation::lose() noexcept {
    undo(absence::may_appear_later);
}

void lock_operation::abandon() noexcept {
    if (inquiry_.abandon()) undo(absence::final);
}

void lock_operation::announce() noexcept {
    if (inquiry_.announce()) undo(absence::final);
}

void lock_operation::undo(absence not_found) noexcept {
    const auto* const acquisition = std::get_if<acquire_request>(&what_);
    const auto by = client_.lock();
    if (acquisition == nullptr || !by) return;
    try {
        auto lasts = acquisition->ttl + time_tolerance;
        if (not_found == absence::may_appear_later) lasts += longest_delivery;
        const auto give_up_at = std::chrono::steady_clock::now() + std::min(lasts, longest_memory);
        by->start(std::make_shared<background_release>(acquisition->id, give_up_at, not_found,
                                                       keys_, client_));
    } catch (const std::exception&) {  // the lock ends with its TTL
    }
}

}  // namespace syncguard::redis
