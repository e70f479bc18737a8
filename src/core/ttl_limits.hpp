/// The check of TTLs.
#pragma once

#include <syncguard/time.hpp>

namespace syncguard {

/// Returns `ttl`. Throws `lock_error` (invalid_argument) unless it is positive and at most
/// `max_ttl`.
milliseconds checked_ttl(milliseconds ttl);

}  // namespace syncguard
