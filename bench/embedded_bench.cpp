/// The embedded engines compared with their lower bounds: one thread acquires and releases in turn.
#include "harness/bars.hpp"

#include <syncguard/key.hpp>
#include <syncguard/lock_id.hpp>
#include <syncguard/memory.hpp>
#include <syncguard/sqlite.hpp>

#include <benchmark/benchmark.h>
#include <sqlite3.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace syncguard::bench {
namespace {

/// A folder for both SQLite contestants, on the same disk.
const std::filesystem::path& folder() {
    static const std::filesystem::path path = [] {
        std::string pattern = (std::filesystem::temp_directory_path() / "syncguard-bench-XXXXXX");
        if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
        return std::filesystem::path(pattern);
    }();
    return path;
}

void make_lock_id(benchmark::State& state) {
    for (auto _ : state)
        benchmark::DoNotOptimize(lock_id::generate());
}

template <class Backend>
void acquire_and_release(benchmark::State& state, const Backend& locks) {
    for (auto _ : state) {
        auto lease = locks.acquire("bench:payment:4711");
        if (!lease || !lease->release().ok) {
            state.SkipWithError("the lock was not granted");
            return;
        }
    }
}

void memory_pair(benchmark::State& state) {
    static const memory::backend locks;
    acquire_and_release(state, locks);
}

/// The same with 100 000 other live locks.
void memory_pair_among_100k(benchmark::State& state) {
    static const memory::backend locks = [] {
        memory::backend backend;
        for (int i = 0; i < 100'000; ++i) {
            backend.acquire("other:" + std::to_string(i), {.ttl = std::chrono::hours(1)})->detach();
        }
        return backend;
    }();
    acquire_and_release(state, locks);
}

void sqlite_pair(benchmark::State& state) {
    static const sqlite::backend locks({.path = folder() / "syncguard.db"});
    acquire_and_release(state, locks);
}

/// A handwritten implementation with the same guarantee: two durable transactions with prepared
/// statements, on the same tables.
class bare_sqlite {
  public:
    bare_sqlite() {
        if (sqlite3_open((folder() / "bare.db").c_str(), &file_) != SQLITE_OK) fail();
        run("PRAGMA journal_mode = WAL");
        run("PRAGMA synchronous = FULL");
        run("CREATE TABLE locks (key TEXT PRIMARY KEY, lock_id TEXT NOT NULL UNIQUE, "
            "expires_at_ms INTEGER NOT NULL, acquired_at_ms INTEGER NOT NULL, fence TEXT NOT NULL, "
            "user_key TEXT NOT NULL) WITHOUT ROWID");
        run("CREATE INDEX locks_expiry ON locks (expires_at_ms)");
        run("CREATE TABLE fences (fence_key TEXT PRIMARY KEY, fence INTEGER NOT NULL) WITHOUT "
            "ROWID");
        begin_ = prepare("BEGIN IMMEDIATE");
        commit_ = prepare("COMMIT");
        find_ = prepare("SELECT expires_at_ms FROM locks WHERE key = 'bench:payment:4711'");
        raise_ = prepare(
            "INSERT INTO fences VALUES ('fence:bench:payment:4711', 1) "
            "ON CONFLICT (fence_key) DO UPDATE SET fence = fence + 1 RETURNING fence");
        put_ = prepare(
            "INSERT INTO locks VALUES ('bench:payment:4711', 'abcdefghijklmnopqrstuv', "
            "1700000030000, 1700000000000, '000000000000001', 'bench:payment:4711') "
            "ON CONFLICT (key) DO UPDATE SET lock_id = excluded.lock_id");
        owned_ = prepare(
            "SELECT key, expires_at_ms FROM locks WHERE lock_id = 'abcdefghijklmnopqrstuv'");
        erase_ = prepare("DELETE FROM locks WHERE key = 'bench:payment:4711'");
    }

    void pair() {
        for (auto* step : {begin_, find_, raise_, put_, commit_})
            finish(step);
        for (auto* step : {begin_, owned_, erase_, commit_})
            finish(step);
    }

  private:
    [[noreturn]] void fail() { throw std::runtime_error(sqlite3_errmsg(file_)); }
    void run(const char* sql) {
        if (sqlite3_exec(file_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail();
    }
    sqlite3_stmt* prepare(const char* sql) {
        sqlite3_stmt* prepared = nullptr;
        if (sqlite3_prepare_v2(file_, sql, -1, &prepared, nullptr) != SQLITE_OK) fail();
        return prepared;
    }
    void finish(sqlite3_stmt* statement) {
        int result = SQLITE_ROW;
        while (result == SQLITE_ROW)
            result = sqlite3_step(statement);
        if (result != SQLITE_DONE) fail();
        sqlite3_reset(statement);
    }

    sqlite3* file_ = nullptr;
    sqlite3_stmt* begin_ = nullptr;
    sqlite3_stmt* commit_ = nullptr;
    sqlite3_stmt* find_ = nullptr;
    sqlite3_stmt* raise_ = nullptr;
    sqlite3_stmt* put_ = nullptr;
    sqlite3_stmt* owned_ = nullptr;
    sqlite3_stmt* erase_ = nullptr;
};

void bare_sqlite_pair(benchmark::State& state) {
    static bare_sqlite file;
    for (auto _ : state)
        file.pair();
}

BENCHMARK(make_lock_id);
BENCHMARK(memory_pair);
BENCHMARK(memory_pair_among_100k);
BENCHMARK(sqlite_pair)->UseRealTime();
BENCHMARK(bare_sqlite_pair)->UseRealTime();

}  // namespace
}  // namespace syncguard::bench

int main(int argc, char** argv) {
    using syncguard::bench::bar;
    using syncguard::bench::medians;
    const int code = syncguard::bench::run_and_judge(
        argc, argv,
        {{.title = "time to make a lock id",
          .figure = [](const medians& ns) { return ns.at("make_lock_id"); },
          .limit = 1000,
          .must_be = bar::direction::at_most,
          .unit = "ns"},
         {.title = "memory: acquire+release pairs per second, one thread",
          .figure = [](const medians& ns) { return 1e9 / ns.at("memory_pair"); },
          .limit = 5e5,
          .must_be = bar::direction::at_least,
          .unit = "pairs/s"},
         {.title = "sqlite: rate beside bare prepared transactions of the same durability",
          .figure =
              [](const medians& ns) { return ns.at("bare_sqlite_pair") / ns.at("sqlite_pair"); },
          .limit = 0.75,
          .must_be = bar::direction::at_least,
          .unit = "x"}});
    std::filesystem::remove_all(syncguard::bench::folder());
    return code;
}
