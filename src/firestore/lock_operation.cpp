#include "firestore/lock_operation.hpp"

#include "firestore/background.hpp"

#include <algorithm>
#include <utility>

namespace syncguard::firestore {

namespace {

/// Cleanup for a server that does not come back ends after this time.
constexpr milliseconds max_cleanup_time = std::chrono::hours(1);

/// Empty for a request that has none.
std::string key_of(const request& what) {
    return std::visit(
        [](const auto& each) {
            if constexpr (requires { each.key; }) return std::string(each.key);
            return std::string();
        },
        what);
}

request with_key(request what, std::string_view key) {
    const auto replace = [key](auto& each) {
        if constexpr (requires { each.key; }) each.key = key;
    };
    std::visit(replace, what);
    return what;
}

}  // namespace

lock_operation::lock_operation(const request& what, const call_limits& limits,
                               const std::shared_ptr<client>& by, completion done)
    : coroutine_operation(limits.deadline),
      key_(key_of(what)),
      what_(with_key(what, key_)),
      client_(by),
      promise_(std::move(done)) {}

void lock_operation::watch_for_stop(const std::stop_token& stop) {
    if (!stop.stop_possible()) return;
    promise_.watch_for_stop(stop, [by = client_, weak = weak_from_this()] {
        const auto alive = by.lock();
        if (auto self = weak.lock(); self && alive) alive->cancel(std::move(self));
    });
}

boost::asio::awaitable<void> lock_operation::run(lock_store& store, net::call_context& ctx) {
    try {
        co_await perform(store, ctx);
    } catch (const lock_error&) {
        const bool is_late =
            ctx.is_cancelled() && ctx.reason().code() == error_code::network_timeout;
        if (!is_late || !so_far_.are_contended()) throw;
        // The server did answer, again and again.
        throw lock_error(error_code::service_unavailable,
                         "nothing came off in time at " + store.server().where() +
                             ": others kept changing the same documents; try again",
                         {}, std::current_exception());
    }
}

boost::asio::awaitable<void> lock_operation::perform(lock_store& store, net::call_context& ctx) {
    ctx.check();
    if (const auto* const acquisition = std::get_if<acquire_request>(&what_)) {
        promise_.answer = co_await store.acquire(*acquisition, ctx, so_far_);
        // The key is locked, but an earlier commit of this call may still be executed.
        if (!promise_.answer.ok && so_far_.is_in_doubt()) undo();
    } else if (const auto* const release = std::get_if<release_request>(&what_)) {
        promise_.answer = co_await store.release(*release, ctx, so_far_);
    } else if (const auto* const extension = std::get_if<extend_request>(&what_)) {
        promise_.answer = co_await store.extend(*extension, ctx, so_far_);
    } else if (const auto* const question = std::get_if<is_locked_request>(&what_)) {
        promise_.answer = co_await store.is_locked(*question, ctx, remains_);
    } else if (const auto* const by_key = std::get_if<key_lookup_request>(&what_)) {
        promise_.answer = co_await store.lookup(*by_key, ctx);
    } else if (const auto* const by_id = std::get_if<id_lookup_request>(&what_)) {
        promise_.answer = co_await store.lookup(*by_id, ctx);
    }
}

void lock_operation::fail(std::exception_ptr why) noexcept {
    promise_.failure = std::move(why);
    if (so_far_.is_in_doubt()) undo();
}

void lock_operation::detach_caller() noexcept {
    if (promise_.detach_caller()) undo();
}

void lock_operation::deliver() noexcept {
    clean_up();
    if (promise_.deliver()) undo();
}

void lock_operation::undo() noexcept {
    const auto* const acquisition = std::get_if<acquire_request>(&what_);
    const auto by = client_.lock();
    if (acquisition == nullptr || !by) return;
    try {
        const auto lifetime = std::min(acquisition->ttl + time_tolerance, max_cleanup_time);
        by->submit(std::make_shared<background_undo>(
            acquisition->id, key_, std::chrono::steady_clock::now() + lifetime, by));
    } catch (const std::exception&) {  // the lock ends with its TTL
    }
}

void lock_operation::clean_up() noexcept {
    const auto by = client_.lock();
    if (!remains_ || !by) return;
    try {
        by->submit(std::make_shared<background_cleanup>(*std::exchange(remains_, std::nullopt)));
    } catch (const std::exception&) {  // somebody else will
    }
}

}  // namespace syncguard::firestore
