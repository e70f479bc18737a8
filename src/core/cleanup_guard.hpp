/// When `is_locked` may remove an expired lock that the store still has.
#pragma once

#include <syncguard/time.hpp>

namespace syncguard {

/// An expired lock may be removed this long after its expiry by the store's clock. The duration
/// includes the tolerance; the rest lets extensions finish that were in flight when the lock
/// expired.
inline constexpr milliseconds cleanup_guard{2000};

}  // namespace syncguard
