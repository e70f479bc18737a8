#include "postgres/lock_operation.hpp"

#include "postgres/background_release.hpp"
#include "postgres/lock_protocol.hpp"
#include "util/bounded_wait.hpp"

#include <syncguard/error.hpp>
#include <syncguard/time.hpp>

#include <algorithm>
#include <utility>

namespace syncguard::postgres {

namespace {

/// Nothing is remembered for longer on behalf of a server that does not come back.
constexpr milliseconds longest_memory = std::chrono::hours(1);

/// Of a release that no caller waits for.
constexpr milliseconds release_timeout = std::chrono::seconds(5);

/// A lock that outlives what was said of it is not asked for in a busy loop.
constexpr milliseconds shortest_pause{20};

std::string key_to_undo(const request& what) {
    const auto* const acquisition = std::get_if<acquire_request>(&what);
    return acquisition == nullptr ? std::string() : std::string(acquisition->key);
}

}  // namespace

lock_operation::lock_operation(const request& what, const call_limits& limits, bool cleanup,
                               std::shared_ptr<const statements> sql,
                               const std::shared_ptr<client>& by, completion done)
    : operation(encode(what, *sql, cleanup), limits.deadline),
      what_(what),
      key_(key_to_undo(what)),
      sql_(std::move(sql)),
      client_(by),
      where_(by->where()),
      inquiry_(std::move(done)) {}

void lock_operation::watch_for_stop(const std::stop_token& stop) {
    if (!stop.stop_possible()) return;
    inquiry_.watch_for_stop(stop, [by = client_, weak = weak_from_this()] {
        const auto alive = by.lock();
        if (auto self = weak.lock(); self && alive) alive->cancel(std::move(self));
    });
}

bool lock_operation::answer(const row& reply) noexcept {
    if (!in_doubt_ && has_to_wait(what_, reply)) {
        forget_copy();
        return false;
    }
    try {
        inquiry_.answer = decoded(reply);
        // What was found may be the work of an earlier copy, which began no earlier than the first.
        const bool was_found = in_doubt_ || was_granted_before(what_, reply);
        inquiry_.answer.attempt_began = was_found ? first_sent_at_.value_or(sent_at_) : sent_at_;
    } catch (...) {
        inquiry_.failure = std::current_exception();
        // No answer that makes sense, or no memory to take it.
        undo();
    }
    return true;
}

void lock_operation::about_to_be_sent(unix_time server_deadline) noexcept {
    // What asks for the fate of an attempt does not make it younger.
    if (in_doubt_) return;
    sent_at_ = lease_clock::now();
    if (!first_sent_at_) first_sent_at_ = sent_at_;
    server_deadline_ = std::max(server_deadline_, server_deadline);
}

/// The latest copy did nothing. An earlier one may: a pooler can call it refused while the server
/// still commits it.
void lock_operation::forget_copy() noexcept {
    if (first_sent_at_ == sent_at_) first_sent_at_.reset();
}

bool lock_operation::lingers(time_point now) const noexcept {
    const auto* const acquisition = std::get_if<acquire_request>(&what_);
    return acquisition != nullptr && acquisition->linger_until > now && !in_doubt_;
}

std::optional<operation::patience> lock_operation::wait_after(const row& reply) {
    const auto now = std::chrono::steady_clock::now();
    if (!lingers(now) || !is_locked(reply) || !answer(reply) || inquiry_.failure) return {};
    forget_copy();
    const milliseconds lasts = inquiry_.answer.locked_for.value_or(milliseconds::max());
    const auto lock_ends = now + bounded_wait(std::max(lasts, shortest_pause));
    return patience{.key = call_.turn,
                    .until = std::min(std::get<acquire_request>(what_).linger_until, lock_ends)};
}

void lock_operation::answer_late(const row& reply) noexcept {
    try {
        if (!has_to_wait(what_, reply) && decode(what_, reply, where_).ok) undo();
    } catch (const std::exception&) {
        undo();
    }
}

outcome lock_operation::decoded(const row& reply) const {
    if (!in_doubt_) {
        const auto trusted = time_to_trust(what_, reply);
        const auto answer = decode(what_, reply, where_);
        const bool may_be_overwritten =
            answer.ok && trusted && lease_clock::now() - sent_at_ > *trusted;
        if (!may_be_overwritten) return answer;
        release_extended();
        return outcome::failed(failure_reason::expired);
    }
    if (const auto* const acquisition = std::get_if<acquire_request>(&what_)) {
        const auto found = decode(id_lookup_request{acquisition->id}, reply, where_).record;
        if (found) return outcome::granted(found->expires_at, found->fence);
        throw answer_was_lost("the lock was not acquired");
    }
    auto answer = decode(what_, reply, where_);
    if (std::holds_alternative<release_request>(what_) && !answer.ok) {
        throw answer_was_lost("the lock is gone, be it by this release or before it");
    }
    return answer;
}

/// The caller receives `expired` and will not release the lock. This releases it by its id, which
/// frees it if the extension took effect after all, and affects no other lock.
void lock_operation::release_extended() const noexcept {
    const auto owner = client_.lock();
    if (!owner) return;
    try {
        const call_limits limits{.deadline = std::chrono::steady_clock::now() + release_timeout,
                                 .stop = {}};
        const release_request release{std::get<extend_request>(what_).id};
        owner->start(std::make_shared<lock_operation>(release, limits, false, sql_, owner,
                                                      [](std::exception_ptr, outcome) {}));
    } catch (const std::exception&) {  // the lock ends with its TTL
    }
}

lock_error lock_operation::answer_was_lost(const char* what_is_known) const {
    return {error_code::service_unavailable,
            "the connection to " + where_ + " broke before its answer came; " + what_is_known};
}

void lock_operation::fail(const lock_error& why) noexcept {
    inquiry_.failure = std::make_exception_ptr(why);
    if (in_doubt_) undo();
}

bool lock_operation::ask_again() noexcept {
    // The first copy could be performed after a later extension, and shorten the lock.
    if (std::holds_alternative<extend_request>(what_)) return false;
    in_doubt_ = true;
    try {
        if (const auto* const acquisition = std::get_if<acquire_request>(&what_)) {
            auto asked = *acquisition;
            asked.key = key_;
            call_ = encode_resolution(asked, *sql_);
        }
    } catch (const std::bad_alloc&) {
        return false;
    }
    return true;
}

void lock_operation::lose() noexcept {
    if (!in_doubt_) undo();
}

std::optional<operation::end_of_lock> lock_operation::known_end_of_lock(
    time_point now) const noexcept {
    if (inquiry_.failure) return std::nullopt;
    const bool ok = inquiry_.answer.ok;
    if (const auto* const acquisition = std::get_if<acquire_request>(&what_)) {
        if (!ok) return std::nullopt;
        return end_of_lock{acquisition->id, now + bounded_wait(acquisition->ttl)};
    }
    if (const auto* const extension = std::get_if<extend_request>(&what_)) {
        return end_of_lock{extension->id, ok ? now + bounded_wait(extension->ttl) : now};
    }
    if (const auto* const release = std::get_if<release_request>(&what_)) {
        return end_of_lock{release->id, now};
    }
    return std::nullopt;
}

bool lock_operation::is_urgent() const noexcept {
    return std::holds_alternative<extend_request>(what_);
}

void lock_operation::abandon() noexcept {
    if (inquiry_.abandon()) undo();
}

void lock_operation::announce() noexcept {
    if (inquiry_.announce()) undo();
}

void lock_operation::undo() noexcept {
    const auto* const acquisition = std::get_if<acquire_request>(&what_);
    const auto by = client_.lock();
    if (acquisition == nullptr || !by) return;
    try {
        // It may still be performed until its deadline, and then lasts for its TTL.
        const auto now = std::chrono::steady_clock::now();
        const auto lasts = std::max<std::chrono::steady_clock::duration>(
                               std::min(final_deadline(), now + longest_memory) - now, {}) +
                           acquisition->ttl + time_tolerance;
        const auto ends_at =
            now + std::min<std::chrono::steady_clock::duration>(lasts, longest_memory);
        by->start(std::make_shared<background_release>(acquisition->id, key_, ends_at,
                                                       server_deadline_, sql_, client_));
    } catch (const std::exception&) {  // the lock ends with its TTL
    }
}

}  // namespace syncguard::postgres
