#include "redis/key_space.hpp"

#include "util/ascii.hpp"

#include <syncguard/error.hpp>
#include <syncguard/key.hpp>
#include <syncguard/lock_id.hpp>

#include <limits>

namespace syncguard::redis {

namespace {

/// Reserves space for ":id:" and a lock id.
constexpr storage_key_budget budget{.limit_bytes = 1000, .reserve_bytes = 26};

constexpr storage_key_budget unlimited{.limit_bytes = std::numeric_limits<std::size_t>::max(),
                                       .reserve_bytes = 0};

constexpr std::string_view index_word = "id:";
constexpr std::string_view fence_word = "fence:";

[[noreturn]] void refuse(const std::string& message) {
    throw lock_error(error_code::invalid_argument, message);
}

std::string_view without_trailing_colons(std::string_view prefix) noexcept {
    while (prefix.ends_with(':'))
        prefix.remove_suffix(1);
    return prefix;
}

}  // namespace

key_space::key_space(std::string_view prefix) : prefix_(without_trailing_colons(prefix)) {
    if (prefix.find(fence_word) != std::string_view::npos || prefix_.ends_with("fence")) {
        refuse(
            "a key prefix must not contain 'fence:' nor end in 'fence': locks would be mixed up "
            "with fence counters, which must never be removed");
    }
    index_prefix_ =
        prefix_.empty() ? std::string(index_word) : prefix_ + ":" + std::string(index_word);
    // In normal form (NFC), which names of counters and users' keys also have.
    reserved_beginning_ = make_storage_key(
        "", std::string(fence_word) + prefix_ + (prefix_.empty() ? "" : ":"), unlimited);
    // So every index key conforms to the rule for storage keys and is never hashed.
    if (index_prefix_.size() + lock_id::length + budget.reserve_bytes > budget.limit_bytes) {
        refuse("the key prefix is too long: with it, an index key has more than " +
               std::to_string(budget.limit_bytes - budget.reserve_bytes) + " bytes");
    }
    lock_prefix_ = prefix_.empty() ? "" : prefix_ + ":";
    fence_prefix_ = lock_prefix_ + std::string(fence_word) + lock_prefix_;
    // Other keys are normalised together with the prefix.
    const std::size_t room = budget.limit_bytes - budget.reserve_bytes;
    hashes_names_ = lock_prefix_.size() + reserved_beginning_.size() + max_key_length_bytes > room;
    if (is_ascii(prefix_) && fence_prefix_.size() < room) {
        max_raw_key_length_ = room - fence_prefix_.size();
    }
}

std::string key_space::lock_key(std::string_view key) const {
    refuse_reserved(key);
    return make_storage_key(prefix_, key, budget);
}

std::string key_space::fence_key(std::string_view lock_key) const {
    return make_fence_key(prefix_, lock_key, budget);
}

bool key_space::uses_raw_key(std::string_view key) const {
    refuse_reserved(key);
    return key.size() <= max_raw_key_length_ && is_ascii(key);
}

void key_space::refuse_reserved(std::string_view key) const {
    const bool is_index =
        key.starts_with(index_word) && lock_id::is_valid(key.substr(index_word.size()));
    // A hash has the same form as a lock id.
    if (hashes_names_ && lock_id::is_valid(key)) {
        refuse(
            "this key is reserved: with so long a key prefix, 22 base64url characters may be the "
            "hash that names another lock or its fence counter; use another key or a shorter "
            "prefix");
    }
    if (!is_index && !key.starts_with(reserved_beginning_)) return;
    refuse(
        "this key is reserved: 'id:' with a lock id, and 'fence:' with the key prefix, name what "
        "belongs to other locks; use another key");
}

}  // namespace syncguard::redis
