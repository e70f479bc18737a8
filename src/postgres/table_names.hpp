/// The names of tables, checked, and as SQL wants them. Pure.
#pragma once

#include <syncguard/postgres.hpp>

#include <string>

namespace syncguard::postgres {

/// Quoted, so that no name means anything but itself; in lower case, as unquoted names are.
struct quoted_names {
    std::string locks;
    std::string fence_counters;
    /// Of the index on the ends of locks; it lies in the schema of its table.
    std::string expiry_index;
};

/// Throws `lock_error` (invalid_argument) for what is no identifier, and for names that may mean
/// the same table.
[[nodiscard]] quoted_names checked_names(const table_names& given);

}  // namespace syncguard::postgres
