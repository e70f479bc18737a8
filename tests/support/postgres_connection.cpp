#include "support/postgres_connection.hpp"

namespace syncguard::test {

namespace {

struct clearer {
    void operator()(PGresult* result) const noexcept { PQclear(result); }
};

}  // namespace

postgres_connection::postgres_connection(const std::string& connection)
    : session_(PQconnectdb(connection.c_str())) {
    if (PQstatus(session_.get()) != CONNECTION_OK) {
        throw postgres_failure({}, PQerrorMessage(session_.get()));
    }
    PQsetNoticeProcessor(
        session_.get(), [](void*, const char*) {}, nullptr);
}

postgres_rows postgres_connection::run(const std::string& sql,
                                       const std::vector<std::string>& parameters) {
    std::vector<const char*> values;
    for (const auto& each : parameters)
        values.push_back(each.c_str());
    const std::unique_ptr<PGresult, clearer> result(
        parameters.empty()
            ? PQexec(session_.get(), sql.c_str())
            : PQexecParams(session_.get(), sql.c_str(), static_cast<int>(values.size()), nullptr,
                           values.data(), nullptr, nullptr, 0));
    const auto status = PQresultStatus(result.get());
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        const char* const code = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
        throw postgres_failure(code == nullptr ? "" : code, PQerrorMessage(session_.get()));
    }
    postgres_rows rows;
    for (int i = 0; i < PQntuples(result.get()); ++i) {
        auto& row = rows.emplace_back();
        for (int k = 0; k < PQnfields(result.get()); ++k) {
            if (PQgetisnull(result.get(), i, k) != 0) {
                row.emplace_back();
            } else {
                row.emplace_back(PQgetvalue(result.get(), i, k));
            }
        }
    }
    return rows;
}

std::string postgres_connection::value(const std::string& sql,
                                       const std::vector<std::string>& parameters) {
    return run(sql, parameters).at(0).at(0).value();
}

}  // namespace syncguard::test
