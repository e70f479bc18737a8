#include "contract/engine_fixture.hpp"
#include "support/manual_clock.hpp"
#include "support/temporary_folder.hpp"

#include <syncguard/sqlite.hpp>

#include <sqlite3.h>

#include <stdexcept>
#include <utility>

namespace syncguard::test {

namespace {

class sqlite_fixture : public engine_fixture {
  public:
    any_backend open(backend_options options) override {
        return sqlite::backend({.path = path(), .clock = clock_.as_wall_clock()},
                               std::move(options));
    }
    [[nodiscard]] unix_time now() const override { return clock_.now(); }
    void advance(milliseconds step) override { clock_.advance(step); }
    void set_fence_counter(const std::string& key, std::uint64_t counter) override {
        (void)open({}).is_locked(key);
        run("INSERT INTO syncguard_fence_counters_v2 (fence_key, fence) VALUES ('fence:" + key +
            "', " + std::to_string(counter) + ")");
    }
    [[nodiscard]] bool delete_fence_counter(const std::string& key) override {
        run("DELETE FROM syncguard_fence_counters_v2 WHERE fence_key = 'fence:" + key + "'");
        return true;
    }
    [[nodiscard]] std::string url() override { return "sqlite:" + path().string(); }

  private:
    void run(const std::string& sql) const {
        sqlite3* file = nullptr;
        sqlite3_open(path().c_str(), &file);
        const int result = sqlite3_exec(file, sql.c_str(), nullptr, nullptr, nullptr);
        sqlite3_close(file);
        if (result != SQLITE_OK) throw std::runtime_error(sqlite3_errstr(result));
    }
    [[nodiscard]] std::filesystem::path path() const { return folder_ / "locks.db"; }

    temporary_folder folder_;
    manual_clock clock_;
};

}  // namespace

std::unique_ptr<engine_fixture> make_sqlite_fixture() {
    return std::make_unique<sqlite_fixture>();
}

}  // namespace syncguard::test
