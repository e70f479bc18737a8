/// When `is_locked` may remove an expired lock that the store still has.
#pragma once

#include <syncguard/time.hpp>

namespace syncguard {

/// How long after a lock's expiry, by the store's clock. The tolerance is part of it; the rest lets
/// extensions finish that were under way at the lock's end.
inline constexpr milliseconds cleanup_guard{2000};

}  // namespace syncguard
