#include "harness/pgbench.hpp"

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <stdexcept>

namespace syncguard::bench {

namespace {

constexpr const char* functions = R"sql(
CREATE FUNCTION bench_acquire(k text, id text, ttl bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    now_ms bigint;
    ends bigint;
    counter bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext(k));
    now_ms := floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    SELECT expires_at_ms INTO ends FROM syncguard_locks WHERE key = k;
    IF ends > now_ms - 1000 THEN RETURN NULL; END IF;
    INSERT INTO syncguard_fence_counters AS c (fence_key, fence, key_debug)
        VALUES ('fence:' || k, 1, k)
        ON CONFLICT (fence_key) DO UPDATE SET fence = c.fence + 1 RETURNING c.fence INTO counter;
    INSERT INTO syncguard_locks AS l
        (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key)
        VALUES (k, id, now_ms + ttl, now_ms, lpad(counter::text, 15, '0'), k)
        ON CONFLICT (key) DO UPDATE SET lock_id = excluded.lock_id,
            expires_at_ms = excluded.expires_at_ms, acquired_at_ms = excluded.acquired_at_ms,
            fence = excluded.fence, user_key = excluded.user_key;
    RETURN counter || ',' || (now_ms + ttl);
END $$;
CREATE FUNCTION bench_release(id text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    k text;
    ends bigint;
BEGIN
    SELECT key, expires_at_ms INTO k, ends FROM syncguard_locks WHERE lock_id = id FOR UPDATE;
    IF k IS NULL THEN RETURN -1; END IF;
    IF ends <= floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1000 THEN
        RETURN -2;
    END IF;
    DELETE FROM syncguard_locks WHERE key = k AND lock_id = id;
    RETURN 1;
END $$;
)sql";

constexpr const char* script = R"(\set number random(1, 1000000000000)
SELECT bench_acquire('bench-pgbench-' || :client_id, 'id' || :client_id || '-' || :number, 30000);
SELECT bench_release('id' || :client_id || '-' || :number);
)";

}  // namespace

pgbench::pgbench(const test::postgres_server& server) {
    server.run(functions);
    const auto file = folder_ / "script";
    std::ofstream(file) << script;
    command_ = "pgbench --no-vacuum --protocol=prepared --file=" + file.string() +
               " --host=127.0.0.1 --username=postgres --port=" + std::to_string(server.port());
}

double pgbench::operations_per_second(std::size_t clients, std::chrono::seconds span) const {
    const std::string command = "PGSSLMODE=disable " + command_ +
                                " --jobs=1 --client=" + std::to_string(clients) +
                                " --time=" + std::to_string(span.count()) + " postgres 2>&1";
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(::popen(command.c_str(), "r"),
                                                                 &::pclose);
    if (!output) throw std::runtime_error("pgbench could not be started");
    std::string text;
    std::array<char, 1024> part{};
    while (std::fgets(part.data(), part.size(), output.get()) != nullptr)
        text += part.data();
    const auto at = text.find("tps = ");
    if (at == std::string::npos) throw std::runtime_error("pgbench said: " + text);
    return 2 * std::stod(text.substr(at + 6));
}

}  // namespace syncguard::bench
