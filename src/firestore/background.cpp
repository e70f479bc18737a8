#include "firestore/background.hpp"

#include <utility>

namespace syncguard::firestore {

namespace {

constexpr milliseconds retry_delay{1'000};
constexpr milliseconds shutdown_retry_delay{100};

}  // namespace

background_undo::background_undo(const lock_id& id, std::string key, time_point lock_ends_at,
                                 const std::shared_ptr<client>& owner)
    : coroutine_operation(lock_ends_at), id_(id), key_(std::move(key)), client_(owner) {}

boost::asio::awaitable<void> background_undo::run(lock_store& store, net::call_context& ctx) {
    while (true) {
        try {
            co_await store.undo(id_, key_, ctx);
            co_return;
        } catch (const lock_error&) {  // the server may become reachable again
        }
        const auto owner = client_.lock();
        const bool is_urgent = !owner || owner->is_shutting_down();
        co_await ctx.sleep(is_urgent ? shutdown_retry_delay : retry_delay);
    }
}

background_cleanup::background_cleanup(stored_lock expired_lock)
    : coroutine_operation(std::chrono::steady_clock::now() + longest_cleanup),
      expired_lock_(std::move(expired_lock)) {}

boost::asio::awaitable<void> background_cleanup::run(lock_store& store, net::call_context& ctx) {
    co_await store.clean_up(expired_lock_, ctx);
}

}  // namespace syncguard::firestore
