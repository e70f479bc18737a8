#include "core/ttl_limits.hpp"

#include <syncguard/options.hpp>

#include <string>

namespace syncguard {

milliseconds checked_ttl(milliseconds ttl) {
    if (ttl <= milliseconds{0} || ttl > max_ttl) {
        throw lock_error(error_code::invalid_argument,
                         "a TTL is at least 1 ms and at most 100 years; got " +
                             std::to_string(ttl.count()) + " ms");
    }
    return ttl;
}

}  // namespace syncguard
