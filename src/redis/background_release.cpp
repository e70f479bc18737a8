#include "redis/background_release.hpp"

#include "redis/lock_protocol.hpp"

#include <algorithm>
#include <utility>

namespace syncguard::redis {

namespace {

constexpr std::chrono::seconds longest_pause{8};
constexpr std::chrono::seconds longest_attempt{3};

time_point end_of_attempt(time_point give_up_at) {
    return std::min(give_up_at, std::chrono::steady_clock::now() + longest_attempt);
}

}  // namespace

background_release::background_release(const lock_id& id, time_point give_up_at, absence not_found,
                                       std::shared_ptr<const key_space> keys,
                                       std::weak_ptr<client> redis_client,
                                       std::chrono::seconds pause)
    : operation(encode(release_request{id}, *keys, false), end_of_attempt(give_up_at)),
      id_(id),
      give_up_at_(give_up_at),
      not_found_(not_found),
      keys_(std::move(keys)),
      client_(std::move(redis_client)),
      pause_(pause) {}

void background_release::answer(const script_reply& reply) noexcept {
    if (reply.value.is_error()) {
        repeat(first_pause);
    } else if (reply.value.integer() != 1 && not_found_ == absence::may_appear_later) {
        repeat(std::min(pause_ * 2, longest_pause));
    }
}

void background_release::fail(const lock_error& /*error*/) noexcept {
    repeat(first_pause);
}

void background_release::repeat(std::chrono::seconds next_pause) noexcept {
    const auto at = std::chrono::steady_clock::now() + pause_;
    const auto owner = client_.lock();
    if (!owner || at >= give_up_at_) return;
    try {
        owner->start_at(at, std::make_shared<background_release>(id_, give_up_at_, not_found_,
                                                                 keys_, client_, next_pause));
    } catch (const std::bad_alloc&) {  // the lock ends with its TTL
    }
}

}  // namespace syncguard::redis
