#include "firestore/lock_operation.hpp"

#include "firestore/background.hpp"

#include <algorithm>
#include <utility>

namespace syncguard::firestore {

namespace {

/// Limit of the time for which a background undo is repeated while the server is unreachable.
constexpr milliseconds max_cleanup_time = std::chrono::hours(1);

/// The key of a request; empty if it has none.
std::string key_of(const request& req) {
    return std::visit(
        [](const auto& each) {
            if constexpr (requires { each.key; }) return std::string(each.key);
            return std::string();
        },
        req);
}

request with_key(request req, std::string_view key) {
    const auto replace = [key](auto& each) {
        if constexpr (requires { each.key; }) each.key = key;
    };
    std::visit(replace, req);
    return req;
}

}  // namespace

lock_operation::lock_operation(const request& req, const call_limits& limits,
                               const std::shared_ptr<client>& owner, completion handler)
    : coroutine_operation(limits.deadline),
      key_(key_of(req)),
      req_(with_key(req, key_)),
      client_(owner),
      promise_(std::move(handler)) {}

void lock_operation::watch_for_stop(const std::stop_token& stop) {
    if (!stop.stop_possible()) return;
    promise_.watch_for_stop(stop, [owner = client_, weak = weak_from_this()] {
        const auto alive = owner.lock();
        if (auto self = weak.lock(); self && alive) alive->cancel(std::move(self));
    });
}

boost::asio::awaitable<void> lock_operation::run(lock_store& store, net::call_context& ctx) {
    try {
        co_await execute(store, ctx);
    } catch (const lock_error&) {
        const bool is_late =
            ctx.is_cancelled() && ctx.reason().code() == error_code::network_timeout;
        if (!is_late || !retry_.is_contended()) throw;
        // The server has answered, but commits of other clients were always faster.
        throw lock_error(error_code::service_unavailable,
                         "nothing came off in time at " + store.server().server_name() +
                             ": others kept changing the same documents; try again",
                         {}, std::current_exception());
    }
}

boost::asio::awaitable<void> lock_operation::execute(lock_store& store, net::call_context& ctx) {
    ctx.check();
    if (const auto* const acquisition = std::get_if<acquire_request>(&req_)) {
        promise_.answer = co_await store.acquire(*acquisition, ctx, retry_);
        // The key is locked, but an earlier commit of this call may still be executed.
        if (!promise_.answer.ok && retry_.is_outcome_unknown()) undo_in_background();
    } else if (const auto* const release = std::get_if<release_request>(&req_)) {
        promise_.answer = co_await store.release(*release, ctx, retry_);
    } else if (const auto* const extension = std::get_if<extend_request>(&req_)) {
        promise_.answer = co_await store.extend(*extension, ctx, retry_);
    } else if (const auto* const question = std::get_if<is_locked_request>(&req_)) {
        promise_.answer = co_await store.is_locked(*question, ctx, expired_lock_);
    } else if (const auto* const by_key = std::get_if<key_lookup_request>(&req_)) {
        promise_.answer = co_await store.lookup(*by_key, ctx);
    } else if (const auto* const by_id = std::get_if<id_lookup_request>(&req_)) {
        promise_.answer = co_await store.lookup(*by_id, ctx);
    }
}

void lock_operation::fail(std::exception_ptr error) noexcept {
    promise_.failure = std::move(error);
    if (retry_.is_outcome_unknown()) undo_in_background();
}

void lock_operation::detach_caller() noexcept {
    if (promise_.detach_caller()) undo_in_background();
}

void lock_operation::deliver() noexcept {
    clean_up_in_background();
    if (promise_.deliver()) undo_in_background();
}

void lock_operation::undo_in_background() noexcept {
    const auto* const acquisition = std::get_if<acquire_request>(&req_);
    const auto owner = client_.lock();
    if (acquisition == nullptr || !owner) return;
    try {
        const auto lifetime = std::min(acquisition->ttl + time_tolerance, max_cleanup_time);
        owner->submit(std::make_shared<background_undo>(
            acquisition->id, key_, std::chrono::steady_clock::now() + lifetime, owner));
    } catch (const std::exception&) {  // the lock ends with its TTL
    }
}

void lock_operation::clean_up_in_background() noexcept {
    const auto owner = client_.lock();
    if (!expired_lock_ || !owner) return;
    try {
        owner->submit(
            std::make_shared<background_cleanup>(*std::exchange(expired_lock_, std::nullopt)));
    } catch (const std::exception&) {  // a later `is_locked` cleans up
    }
}

}  // namespace syncguard::firestore
