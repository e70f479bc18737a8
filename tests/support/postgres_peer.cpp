#include "support/postgres_peer.hpp"

#include <array>
#include <random>

namespace syncguard::test {

namespace {

struct clearer {
    void operator()(PGresult* result) const noexcept { PQclear(result); }
};

struct prepared {
    const char* name;
    const char* text;
};

constexpr std::array statements{
    prepared{"begin", "BEGIN"},
    prepared{"commit", "COMMIT"},
    prepared{"enter", "SELECT pg_advisory_xact_lock(hashtext($1))"},
    prepared{"now", "SELECT floor(extract(epoch FROM now()) * 1000)::bigint"},
    prepared{"read", "SELECT expires_at_ms FROM syncguard_locks WHERE key = $1"},
    prepared{"raise",
             "INSERT INTO syncguard_fence_counters (fence_key, fence, key_debug) "
             "VALUES ($1, 1, $2) ON CONFLICT (fence_key) DO UPDATE "
             "SET fence = syncguard_fence_counters.fence + 1 RETURNING fence"},
    prepared{"put",
             "INSERT INTO syncguard_locks "
             "(key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key) "
             "VALUES ($1, $2, $3, $4, $5, $1) ON CONFLICT (key) DO UPDATE SET "
             "lock_id = excluded.lock_id, expires_at_ms = excluded.expires_at_ms, "
             "acquired_at_ms = excluded.acquired_at_ms, fence = excluded.fence, "
             "user_key = excluded.user_key"},
    prepared{"find",
             "SELECT key, expires_at_ms FROM syncguard_locks WHERE lock_id = $1 FOR UPDATE"},
    prepared{"remove", "DELETE FROM syncguard_locks WHERE key = $1 AND lock_id = $2"},
    prepared{"prolong",
             "UPDATE syncguard_locks SET expires_at_ms = $3 WHERE key = $1 AND lock_id = $2"},
};

bool is_live(const std::string& expires_at_ms, long long now_ms) {
    return std::stoll(expires_at_ms) > now_ms - 1000;
}

}  // namespace

/// Always ends with a commit: a peer that changes nothing commits an empty transaction.
struct postgres_peer::in_transaction {
    explicit in_transaction(postgres_peer& owner) : peer(owner) { peer.execute("begin"); }
    in_transaction(const in_transaction&) = delete;
    in_transaction& operator=(const in_transaction&) = delete;
    void commit() { peer.execute("commit"); }
    postgres_peer& peer;
};

postgres_peer::postgres_peer(const std::string& connection) : session_(connection) {
    for (const auto& each : statements) {
        const std::unique_ptr<PGresult, clearer> result(
            PQprepare(session_.native(), each.name, each.text, 0, nullptr));
        if (PQresultStatus(result.get()) != PGRES_COMMAND_OK) {
            throw postgres_failure({}, PQerrorMessage(session_.native()));
        }
    }
}

postgres_rows postgres_peer::execute(const char* name, const std::vector<std::string>& parameters) {
    std::array<const char*, 8> values{};
    for (std::size_t i = 0; i < parameters.size(); ++i)
        values.at(i) = parameters[i].c_str();
    const std::unique_ptr<PGresult, clearer> result(
        PQexecPrepared(session_.native(), name, static_cast<int>(parameters.size()), values.data(),
                       nullptr, nullptr, 0));
    const auto status = PQresultStatus(result.get());
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        const char* const code = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
        throw postgres_failure(code == nullptr ? "" : code, PQerrorMessage(session_.native()));
    }
    postgres_rows rows;
    for (int i = 0; i < PQntuples(result.get()); ++i) {
        auto& row = rows.emplace_back();
        for (int k = 0; k < PQnfields(result.get()); ++k)
            row.emplace_back(PQgetvalue(result.get(), i, k));
    }
    return rows;
}

std::optional<std::string> postgres_peer::acquire(const std::string& key,
                                                  const std::string& lock_id,
                                                  std::chrono::milliseconds ttl) {
    in_transaction alone(*this);
    execute("enter", {key});
    const long long now = std::stoll(*execute("now").at(0).at(0));
    const auto held = execute("read", {key});
    std::optional<std::string> fence;
    if (held.empty() || !is_live(*held[0][0], now)) {
        const auto counter = *execute("raise", {"fence:" + key, key}).at(0).at(0);
        fence = std::string(15 - counter.size(), '0') + counter;
        execute("put",
                {key, lock_id, std::to_string(now + ttl.count()), std::to_string(now), *fence});
    }
    alone.commit();
    return fence;
}

bool postgres_peer::release(const std::string& lock_id) {
    in_transaction alone(*this);
    const auto held = execute("find", {lock_id});
    const bool mine =
        !held.empty() && is_live(*held[0][1], std::stoll(*execute("now").at(0).at(0)));
    if (mine) execute("remove", {*held[0][0], lock_id});
    alone.commit();
    return mine;
}

bool postgres_peer::extend(const std::string& lock_id, std::chrono::milliseconds ttl) {
    in_transaction alone(*this);
    const auto held = execute("find", {lock_id});
    const long long now = std::stoll(*execute("now").at(0).at(0));
    const bool mine = !held.empty() && is_live(*held[0][1], now);
    if (mine) execute("prolong", {*held[0][0], lock_id, std::to_string(now + ttl.count())});
    alone.commit();
    return mine;
}

std::string postgres_peer::new_lock_id() {
    static constexpr char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    thread_local std::mt19937_64 random(std::random_device{}());
    std::string id(22, ' ');
    for (auto& each : id)
        each = letters[random() % 64];
    return id;
}

}  // namespace syncguard::test
