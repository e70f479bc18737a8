/// Validation of the options.
#pragma once

#include <syncguard/firestore.hpp>

namespace syncguard::firestore {

/// Sets the default clock if there is none. Throws `lock_error` (invalid_argument) for invalid
/// options.
[[nodiscard]] options checked(options opts);

}  // namespace syncguard::firestore
