#include "background_release.hpp"

#include "lock_protocol.hpp"

#include <algorithm>
#include <utility>

namespace syncguard::redis {

namespace {

constexpr std::chrono::seconds pause_before_repetition{1};
constexpr std::chrono::seconds longest_attempt{3};

time_point end_of_attempt(time_point lock_ends_at) {
    return std::min(lock_ends_at, std::chrono::steady_clock::now() + longest_attempt);
}

}  // namespace

background_release::background_release(const lock_id& id, time_point lock_ends_at,
                                       unsigned repetitions, std::shared_ptr<const key_space> keys,
                                       std::weak_ptr<client> by)
    : operation(encode(release_request{id}, *keys, false), end_of_attempt(lock_ends_at)),
      id_(id),
      lock_ends_at_(lock_ends_at),
      repetitions_(repetitions),
      keys_(std::move(keys)),
      client_(std::move(by)) {}

void background_release::answer(const script_reply& reply) noexcept {
    if (reply.value.is_error()) {
        repeat(repetitions_);
    } else if (reply.value.integer() != 1 && repetitions_ > 0) {
        repeat(repetitions_ - 1);
    }
}

void background_release::fail(const lock_error& /*why*/) noexcept {
    repeat(repetitions_);
}

void background_release::repeat(unsigned repetitions) noexcept {
    const auto at = std::chrono::steady_clock::now() + pause_before_repetition;
    const auto owner = client_.lock();
    if (!owner || at >= lock_ends_at_) return;
    try {
        owner->start_at(at, std::make_shared<background_release>(id_, lock_ends_at_, repetitions,
                                                                 keys_, client_));
    } catch (const std::bad_alloc&) {  // the lock ends with its TTL
    }
}

}  // namespace syncguard::redis
