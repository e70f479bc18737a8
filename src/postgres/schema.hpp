/// The tables.
#pragma once

#include "table_names.hpp"
#include "transaction.hpp"

#include <string>
#include <vector>

namespace syncguard::postgres {

/// What makes the tables where they are missing, in one transaction.
struct schema_statements {
    explicit schema_statements(const quoted_names& tables);

    /// Several who do it at the same time wait for each other: IF NOT EXISTS alone is no help
    /// against others who make the same table.
    statement enter;
    /// In this order.
    std::vector<std::string> creations;
    /// The same as one statement.
    statement create;
};

}  // namespace syncguard::postgres
