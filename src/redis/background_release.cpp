#include "redis/background_release.hpp"

#include "redis/lock_protocol.hpp"

#include <algorithm>
#include <utility>

namespace syncguard::redis {

namespace {

constexpr std::chrono::seconds max_retry_delay{8};
constexpr std::chrono::seconds max_attempt_time{3};

time_point end_of_attempt(time_point give_up_at) {
    return std::min(give_up_at, std::chrono::steady_clock::now() + max_attempt_time);
}

}  // namespace

background_release::background_release(const lock_id& id, time_point give_up_at, absence not_found,
                                       std::shared_ptr<const key_space> keys,
                                       std::weak_ptr<client> redis_client,
                                       std::chrono::seconds retry_delay)
    : script_operation(encode(release_request{id}, *keys, false), end_of_attempt(give_up_at)),
      id_(id),
      give_up_at_(give_up_at),
      not_found_(not_found),
      keys_(std::move(keys)),
      client_(std::move(redis_client)),
      retry_delay_(retry_delay) {}

void background_release::on_response(const script_reply& reply) noexcept {
    if (reply.value.is_error()) {
        repeat(first_retry_delay);
    } else if (reply.value.integer() != 1 && not_found_ == absence::may_appear_later) {
        repeat(std::min(retry_delay_ * 2, max_retry_delay));
    }
}

void background_release::on_error(const lock_error& /*error*/) noexcept {
    repeat(first_retry_delay);
}

void background_release::repeat(std::chrono::seconds next_delay) noexcept {
    const auto at = std::chrono::steady_clock::now() + retry_delay_;
    const auto owner = client_.lock();
    if (!owner || at >= give_up_at_) return;
    try {
        owner->submit_at(at, std::make_shared<background_release>(id_, give_up_at_, not_found_,
                                                                  keys_, client_, next_delay));
    } catch (const std::bad_alloc&) {  // the lock ends with its TTL
    }
}

}  // namespace syncguard::redis
