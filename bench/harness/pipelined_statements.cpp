#include "harness/pipelined_statements.hpp"

#include "postgres/lock_protocol.hpp"

#include <array>
#include <memory>
#include <stdexcept>

namespace syncguard::bench {

namespace {

struct clearer {
    void operator()(PGresult* result) const noexcept { PQclear(result); }
};

}  // namespace

pipelined_statements::pipelined_statements(const std::string& server)
    : session_(server), sql_(postgres::checked_names({})) {
    PQenterPipelineMode(session_.native());
}

std::string pipelined_statements::field_of(const postgres::query& asked, int field) {
    const std::array alone{postgres::timed_query{&asked, unix_time::max()}};
    for (const auto& step : postgres::build_transaction(alone, false, milliseconds(5'000))) {
        std::array<const char*, 8> values{};
        for (std::size_t i = 0; i < step.parameters.size(); ++i)
            values.at(i) = step.parameters[i].c_str();
        if (prepared_.insert(step.sql).second) {
            PQsendPrepare(session_.native(), step.sql->name.c_str(), step.sql->text.c_str(), 0,
                          nullptr);
        }
        PQsendQueryPrepared(session_.native(), step.sql->name.c_str(),
                            static_cast<int>(step.parameters.size()), values.data(), nullptr,
                            nullptr, 0);
    }
    PQpipelineSync(session_.native());
    std::string last;
    while (true) {
        const std::unique_ptr<PGresult, clearer> result(PQgetResult(session_.native()));
        if (!result) continue;
        const auto status = PQresultStatus(result.get());
        if (status == PGRES_PIPELINE_SYNC) return last;
        if (status == PGRES_COMMAND_OK) continue;  // It was prepared.
        if (status != PGRES_TUPLES_OK) {
            throw std::runtime_error(PQresultErrorMessage(result.get()));
        }
        last = PQgetvalue(result.get(), 0, std::min(field, PQnfields(result.get()) - 1));
    }
}

void pipelined_statements::pair(const std::string& key) {
    const auto id = lock_id::generate();
    const auto granted =
        field_of(encode(acquire_request{key, id, milliseconds(30'000)}, sql_, false), 3);
    const auto removed = field_of(encode(release_request{id}, sql_, false), 0);
    if (granted.empty() || removed != "1") throw std::runtime_error(key + " was not granted");
}

}  // namespace syncguard::bench
