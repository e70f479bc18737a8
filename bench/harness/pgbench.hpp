/// PostgreSQL's own benchmark, with functions on the server that acquire and release in one call.
#pragma once

#include "support/postgres_server.hpp"

#include <chrono>
#include <cstddef>
#include <string>

namespace syncguard::bench {

class pgbench {
  public:
    /// Creates the functions.
    explicit pgbench(const test::postgres_server& server);

    /// Acquisitions and releases count separately; each is a separate transaction.
    [[nodiscard]] double operations_per_second(std::size_t clients,
                                               std::chrono::seconds span) const;

  private:
    test::temporary_folder folder_;
    std::string command_;
};

}  // namespace syncguard::bench
