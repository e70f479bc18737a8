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

/// Limit of the time for which a background release is repeated while the server is unreachable.
constexpr milliseconds max_cleanup_time = std::chrono::hours(1);

/// Timeout of a release for which no caller waits.
constexpr milliseconds release_timeout = std::chrono::seconds(5);

/// A lock that outlives its reported end is not polled in a busy loop.
constexpr milliseconds min_retry_delay{20};

std::string acquired_key(const request& req) {
    const auto* const acquisition = std::get_if<acquire_request>(&req);
    return acquisition == nullptr ? std::string() : std::string(acquisition->key);
}

}  // namespace

lock_operation::lock_operation(const request& req, const call_limits& limits, bool cleanup,
                               std::shared_ptr<const statements> sql,
                               const std::shared_ptr<client>& owner, completion handler)
    : query_operation(encode(req, *sql, cleanup), limits.deadline),
      req_(req),
      key_(acquired_key(req)),
      sql_(std::move(sql)),
      client_(owner),
      server_name_(owner->server_name()),
      promise_(std::move(handler)) {}

void lock_operation::watch_for_stop(const std::stop_token& stop) {
    if (!stop.stop_possible()) return;
    promise_.watch_for_stop(stop, [owner = client_, weak = weak_from_this()] {
        const auto alive = owner.lock();
        if (auto self = weak.lock(); self && alive) alive->cancel(std::move(self));
    });
}

bool lock_operation::on_response(const row& reply) noexcept {
    if (!outcome_unknown_ && needs_key_lock(req_, reply)) {
        forget_copy();
        return false;
    }
    try {
        promise_.answer = decoded(reply);
        // The lock that was found may have been granted to an earlier copy, which began no earlier
        // than the first one.
        const bool was_found = outcome_unknown_ || was_granted_before(req_, reply);
        promise_.answer.attempt_started_at =
            was_found ? first_sent_at_.value_or(sent_at_) : sent_at_;
    } catch (...) {
        promise_.failure = std::current_exception();
        // The answer is invalid, or there is no memory for it.
        release_in_background();
    }
    return true;
}

void lock_operation::before_send(unix_time server_deadline) noexcept {
    // A query for the outcome of an attempt does not change when the attempt began.
    if (outcome_unknown_) return;
    sent_at_ = lease_clock::now();
    if (!first_sent_at_) first_sent_at_ = sent_at_;
    server_deadline_ = std::max(server_deadline_, server_deadline);
}

/// The latest copy did nothing. An earlier one may still be granted: a pooler may report it as
/// refused while the server commits it.
void lock_operation::forget_copy() noexcept {
    if (first_sent_at_ == sent_at_) first_sent_at_.reset();
}

bool lock_operation::wants_watch(time_point now) const noexcept {
    const auto* const acquisition = std::get_if<acquire_request>(&req_);
    return acquisition != nullptr && acquisition->wait_until > now && !outcome_unknown_;
}

std::optional<query_operation::watch_request> lock_operation::watch_after(const row& reply) {
    const auto now = std::chrono::steady_clock::now();
    if (!wants_watch(now) || !is_locked(reply) || !on_response(reply) || promise_.failure)
        return {};
    forget_copy();
    const milliseconds lasts = promise_.answer.free_within.value_or(milliseconds::max());
    const auto lock_ends = now + bounded_wait(std::max(lasts, min_retry_delay));
    return watch_request{.key = query_.key_lock,
                         .until = std::min(std::get<acquire_request>(req_).wait_until, lock_ends)};
}

void lock_operation::on_late_response(const row& reply) noexcept {
    try {
        if (!needs_key_lock(req_, reply) && decode(req_, reply, server_name_).ok)
            release_in_background();
    } catch (const std::exception&) {
        release_in_background();
    }
}

outcome lock_operation::decoded(const row& reply) const {
    if (!outcome_unknown_) {
        const auto trusted = time_to_trust(req_, reply);
        const auto answer = decode(req_, reply, server_name_);
        const bool may_be_overwritten =
            answer.ok && trusted && lease_clock::now() - sent_at_ > *trusted;
        if (!may_be_overwritten) return answer;
        release_extended();
        return outcome::failed(failure_reason::expired);
    }
    if (const auto* const acquisition = std::get_if<acquire_request>(&req_)) {
        const auto found = decode(id_lookup_request{acquisition->id}, reply, server_name_).record;
        if (found) return outcome::granted(found->expires_at, found->fence);
        throw answer_was_lost("the lock was not acquired");
    }
    auto answer = decode(req_, reply, server_name_);
    if (std::holds_alternative<release_request>(req_) && !answer.ok) {
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
        const release_request release{std::get<extend_request>(req_).id};
        owner->submit(std::make_shared<lock_operation>(release, limits, false, sql_, owner,
                                                       [](std::exception_ptr, outcome) {}));
    } catch (const std::exception&) {  // the lock ends with its TTL
    }
}

lock_error lock_operation::answer_was_lost(const char* detail) const {
    return {error_code::service_unavailable,
            "the connection to " + server_name_ + " broke before its answer came; " + detail};
}

void lock_operation::on_error(const lock_error& error) noexcept {
    promise_.failure = std::make_exception_ptr(error);
    if (outcome_unknown_) release_in_background();
}

bool lock_operation::prepare_resend() noexcept {
    // The server could perform the first copy after a later extension, and shorten the lock.
    if (std::holds_alternative<extend_request>(req_)) return false;
    outcome_unknown_ = true;
    try {
        if (const auto* const acquisition = std::get_if<acquire_request>(&req_)) {
            auto asked = *acquisition;
            asked.key = key_;
            query_ = encode_outcome_lookup(asked, *sql_);
        }
    } catch (const std::bad_alloc&) {
        return false;
    }
    return true;
}

void lock_operation::on_outcome_unknown() noexcept {
    if (!outcome_unknown_) release_in_background();
}

std::optional<query_operation::end_of_lock> lock_operation::known_end_of_lock(
    time_point now) const noexcept {
    if (promise_.failure) return std::nullopt;
    const bool ok = promise_.answer.ok;
    if (const auto* const acquisition = std::get_if<acquire_request>(&req_)) {
        if (!ok) return std::nullopt;
        return end_of_lock{acquisition->id, now + bounded_wait(acquisition->ttl)};
    }
    if (const auto* const extension = std::get_if<extend_request>(&req_)) {
        return end_of_lock{extension->id, ok ? now + bounded_wait(extension->ttl) : now};
    }
    if (const auto* const release = std::get_if<release_request>(&req_)) {
        return end_of_lock{release->id, now};
    }
    return std::nullopt;
}

bool lock_operation::uses_reserved_connection() const noexcept {
    return std::holds_alternative<extend_request>(req_);
}

void lock_operation::detach_caller() noexcept {
    if (promise_.detach_caller()) release_in_background();
}

void lock_operation::deliver() noexcept {
    if (promise_.deliver()) release_in_background();
}

void lock_operation::release_in_background() noexcept {
    const auto* const acquisition = std::get_if<acquire_request>(&req_);
    const auto owner = client_.lock();
    if (acquisition == nullptr || !owner) return;
    try {
        // The server may perform the acquisition until its deadline; the lock then lasts for its
        // TTL.
        const auto now = std::chrono::steady_clock::now();
        const auto lasts = std::max<std::chrono::steady_clock::duration>(
                               std::min(final_deadline(), now + max_cleanup_time) - now, {}) +
                           acquisition->ttl + time_tolerance;
        const auto ends_at =
            now + std::min<std::chrono::steady_clock::duration>(lasts, max_cleanup_time);
        owner->submit(std::make_shared<background_release>(acquisition->id, key_, ends_at,
                                                           server_deadline_, sql_, client_));
    } catch (const std::exception&) {  // the lock ends with its TTL
    }
}

}  // namespace syncguard::postgres
