#include "fence_limits.hpp"

#include "warning.hpp"

#include <syncguard/error.hpp>
#include <syncguard/key.hpp>

#include <string>

namespace syncguard {

fence checked_fence(std::uint64_t counter) {
    if (counter > fence::max_counter) {
        throw lock_error(error_code::internal,
                         "the fence counter of this key has reached its end (" +
                             fence::from_counter(fence::max_counter).to_string() +
                             "); nothing was locked. Use a new key or key prefix");
    }
    return fence::from_counter(counter);
}

void warn_if_fence_runs_out(const fence& granted, std::string_view key,
                            const warning_handler& on_warning) noexcept {
    static const fence warn_after = fence::from_counter(fence::warn_counter);
    if (granted <= warn_after) return;
    try {
        warn_later(on_warning, "the fence counter of the key with hash " + hash_key(key) +
                                   " is at " + granted.to_string() + "; acquisitions fail beyond " +
                                   fence::from_counter(fence::max_counter).to_string() +
                                   ". Plan to move to a new key or key prefix");
    } catch (...) {  // no memory for the text
    }
}

}  // namespace syncguard
