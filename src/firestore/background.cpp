#include "firestore/background.hpp"

#include <utility>

namespace syncguard::firestore {

namespace {

constexpr milliseconds pause_before_repetition{1'000};
constexpr milliseconds pause_at_the_end{100};

}  // namespace

background_undo::background_undo(const lock_id& id, std::string key, time_point lock_ends_at,
                                 const std::shared_ptr<client>& by)
    : operation(lock_ends_at), id_(id), key_(std::move(key)), client_(by) {}

boost::asio::awaitable<void> background_undo::run(lock_store& store, net::interruption& limits) {
    while (true) {
        try {
            co_await store.undo(id_, key_, limits);
            co_return;
        } catch (const lock_error&) {  // the server may come back
        }
        const auto owner = client_.lock();
        const bool hurry = !owner || owner->is_ending();
        co_await limits.pause(hurry ? pause_at_the_end : pause_before_repetition);
    }
}

background_cleanup::background_cleanup(stored_lock remains)
    : operation(std::chrono::steady_clock::now() + longest_cleanup), remains_(std::move(remains)) {}

boost::asio::awaitable<void> background_cleanup::run(lock_store& store, net::interruption& limits) {
    co_await store.clean_up(remains_, limits);
}

}  // namespace syncguard::firestore
