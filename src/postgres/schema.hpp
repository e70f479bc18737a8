/// The tables.
#pragma once

#include "table_names.hpp"
#include "transaction.hpp"

#include <vector>

namespace syncguard::postgres {

/// What makes the tables where they are missing, in this order and in one transaction. Several who
/// do it at the same time wait for each other.
[[nodiscard]] std::vector<statement> schema_statements(const quoted_names& tables);

}  // namespace syncguard::postgres
