/// PostgreSQL's own benchmark, with functions on the server that acquire and release in one call.
#pragma once

#include "support/postgres_server.hpp"

#include <chrono>
#include <cstddef>
#include <string>

namespace syncguard::bench {

class pgbench {
  public:
    /// Makes the functions.
    explicit pgbench(const test::postgres_server& server);

    /// An acquisition and a release count one each, and each is a transaction of its own.
    [[nodiscard]] double operations_per_second(std::size_t clients,
                                               std::chrono::seconds span) const;

  private:
    test::temporary_folder folder_;
    std::string command_;
};

}  // namespace syncguard::bench
