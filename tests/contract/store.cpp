#include "store.hpp"

#include "support/manual_clock.hpp"
#include "support/temporary_folder.hpp"

#include <syncguard/key.hpp>
#include <syncguard/memory.hpp>
#include <syncguard/sqlite.hpp>

#include <sqlite3.h>

#include <optional>
#include <stdexcept>
#include <utility>

namespace syncguard::test {

namespace {

class memory_store : public store {
  public:
    any_backend open(backend_options options) override {
        if (!engine_) {
            memory::backend first(
                {.clock = clock_.as_wall_clock(), .fences_start_after = counter_});
            engine_ = detail::access::core(first).store();
        }
        return any_backend(engine_, std::move(options));
    }
    [[nodiscard]] unix_time now() const override { return clock_.now(); }
    void advance(milliseconds by) override { clock_.advance(by); }
    void set_fence_counter(const std::string& /*key*/, std::uint64_t counter) override {
        counter_ = counter;
    }
    [[nodiscard]] std::string url() const override { return {}; }

  private:
    manual_clock clock_;
    std::uint64_t counter_ = 0;
    std::shared_ptr<engine> engine_;
};

class sqlite_store : public store {
  public:
    any_backend open(backend_options options) override {
        return sqlite::backend({.path = path(), .clock = clock_.as_wall_clock()},
                               std::move(options));
    }
    [[nodiscard]] unix_time now() const override { return clock_.now(); }
    void advance(milliseconds by) override { clock_.advance(by); }
    void set_fence_counter(const std::string& key, std::uint64_t counter) override {
        (void)open({}).is_locked(key);
        const std::string sql =
            "INSERT INTO syncguard_fence_counters (fence_key, fence) VALUES ('fence:" + key +
            "', " + std::to_string(counter) + ")";
        sqlite3* file = nullptr;
        sqlite3_open(path().c_str(), &file);
        const int result = sqlite3_exec(file, sql.c_str(), nullptr, nullptr, nullptr);
        sqlite3_close(file);
        if (result != SQLITE_OK) throw std::runtime_error(sqlite3_errstr(result));
    }
    [[nodiscard]] std::string url() const override { return "sqlite:" + path().string(); }

  private:
    [[nodiscard]] std::filesystem::path path() const { return folder_ / "locks.db"; }

    temporary_folder folder_;
    manual_clock clock_;
};

}  // namespace

std::vector<store_kind> all_stores() {
    return {
        {"memory", false, [] { return std::make_unique<memory_store>(); }},
        {"sqlite", true, [] { return std::make_unique<sqlite_store>(); }},
    };
}

std::vector<store_kind> shared_stores() {
    auto stores = all_stores();
    std::erase_if(stores, [](const store_kind& kind) { return !kind.shared_between_processes; });
    return stores;
}

}  // namespace syncguard::test
