/// A small blocking PostgreSQL client, independent of the library under test.
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <libpq-fe.h>

namespace syncguard::test {

/// The rows that a statement returned, as text. NULL is an empty optional.
using postgres_rows = std::vector<std::vector<std::optional<std::string>>>;

/// The server has refused a statement, or the connection is broken (then without a code).
struct postgres_failure : std::runtime_error {
    postgres_failure(std::string code, const std::string& message)
        : std::runtime_error(message), sqlstate(std::move(code)) {}
    std::string sqlstate;
};

class postgres_connection {
  public:
    /// Throws `postgres_failure`.
    explicit postgres_connection(const std::string& connection);

    /// Throws `postgres_failure`. Without parameters the text may hold several statements.
    postgres_rows run(const std::string& sql, const std::vector<std::string>& parameters = {});

    /// The first field of the first row.
    std::string value(const std::string& sql, const std::vector<std::string>& parameters = {});

    [[nodiscard]] PGconn* native() const noexcept { return session_.get(); }

  private:
    struct finisher {
        void operator()(PGconn* session) const noexcept { PQfinish(session); }
    };
    std::unique_ptr<PGconn, finisher> session_;
};

}  // namespace syncguard::test
