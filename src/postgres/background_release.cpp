#include "postgres/background_release.hpp"

#include "postgres/lock_protocol.hpp"

#include <algorithm>
#include <utility>

namespace syncguard::postgres {

namespace {

constexpr std::chrono::seconds retry_delay{1};
constexpr std::chrono::seconds max_attempt_time{3};

time_point end_of_attempt(time_point lock_ends_at) {
    return std::min(lock_ends_at, std::chrono::steady_clock::now() + max_attempt_time);
}

}  // namespace

background_release::background_release(const lock_id& id, std::string key, time_point lock_ends_at,
                                       unix_time server_deadline,
                                       std::shared_ptr<const statements> sql,
                                       std::weak_ptr<client> owner)
    : query_operation(encode_background_release(id, key, *sql), end_of_attempt(lock_ends_at)),
      id_(id),
      key_(std::move(key)),
      lock_ends_at_(lock_ends_at),
      server_deadline_(server_deadline),
      sql_(std::move(sql)),
      client_(std::move(owner)) {}

bool background_release::on_response(const row& reply) noexcept {
    try {
        if (!release_is_final(reply, server_deadline_)) repeat();
    } catch (const std::exception&) {  // An invalid answer.
        repeat();
    }
    return true;
}

void background_release::on_error(const lock_error& /*error*/) noexcept {
    repeat();
}

void background_release::repeat() noexcept {
    const auto at = std::chrono::steady_clock::now() + retry_delay;
    const auto owner = client_.lock();
    if (!owner || at >= lock_ends_at_) return;
    try {
        owner->submit_at(at, std::make_shared<background_release>(id_, key_, lock_ends_at_,
                                                                  server_deadline_, sql_, client_));
    } catch (const std::bad_alloc&) {  // the lock ends with its TTL
    }
}

}  // namespace syncguard::postgres
