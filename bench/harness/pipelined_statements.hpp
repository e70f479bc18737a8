/// A handwritten alternative to the PostgreSQL engine: its statements, prepared and sent together,
/// blocking until the answers have arrived.
#pragma once

#include "postgres/query.hpp"
#include "postgres/statements.hpp"
#include "support/postgres_connection.hpp"

#include <set>
#include <string>

namespace syncguard::bench {

class pipelined_statements {
  public:
    explicit pipelined_statements(const std::string& server);

    /// One acquisition under a fresh lock id, and its release. Throws unless both succeed.
    void pair(const std::string& key);

  private:
    /// The value of a field in the answer.
    std::string field_of(const postgres::query& asked, int field);

    test::postgres_connection session_;
    postgres::statements sql_;
    std::set<const postgres::statement*> prepared_;
};

}  // namespace syncguard::bench
