#include "postgres/background_release.hpp"

#include "postgres/lock_protocol.hpp"

#include <algorithm>
#include <utility>

namespace syncguard::postgres {

namespace {

constexpr std::chrono::seconds pause_before_repetition{1};
constexpr std::chrono::seconds longest_attempt{3};

time_point end_of_attempt(time_point lock_ends_at) {
    return std::min(lock_ends_at, std::chrono::steady_clock::now() + longest_attempt);
}

}  // namespace

background_release::background_release(const lock_id& id, std::string key, time_point lock_ends_at,
                                       unix_time server_deadline,
                                       std::shared_ptr<const statements> sql,
                                       std::weak_ptr<client> by)
    : operation(encode_undoing(id, key, *sql), end_of_attempt(lock_ends_at)),
      id_(id),
      key_(std::move(key)),
      lock_ends_at_(lock_ends_at),
      server_deadline_(server_deadline),
      sql_(std::move(sql)),
      client_(std::move(by)) {}

bool background_release::answer(const row& reply) noexcept {
    try {
        if (!is_undone(reply, server_deadline_)) repeat();
    } catch (const std::exception&) {  // An answer that makes no sense.
        repeat();
    }
    return true;
}

void background_release::fail(const lock_error& /*why*/) noexcept {
    repeat();
}

void background_release::repeat() noexcept {
    const auto at = std::chrono::steady_clock::now() + pause_before_repetition;
    const auto owner = client_.lock();
    if (!owner || at >= lock_ends_at_) return;
    try {
        owner->start_at(at, std::make_shared<background_release>(id_, key_, lock_ends_at_,
                                                                 server_deadline_, sql_, client_));
    } catch (const std::bad_alloc&) {  // the lock ends with its TTL
    }
}

}  // namespace syncguard::postgres
