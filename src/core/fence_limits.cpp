#include "core/fence_limits.hpp"

#include <syncguard/error.hpp>

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

}  // namespace syncguard
