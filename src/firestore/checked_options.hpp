/// Options that can be used.
#pragma once

#include <syncguard/firestore.hpp>

namespace syncguard::firestore {

/// Fills in the clock. Throws `lock_error` (invalid_argument) that says what is wrong.
[[nodiscard]] options checked(options opts);

}  // namespace syncguard::firestore
