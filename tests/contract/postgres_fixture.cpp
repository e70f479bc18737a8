#include "contract/engine_fixture.hpp"
#include "support/postgres_server.hpp"

#include <syncguard/postgres.hpp>

#include <utility>

namespace syncguard::test {

namespace {

/// Starting a server takes longer than most tests. All tests of a process share this one, each with
/// empty tables, unless a test has let its clock run.
std::unique_ptr<postgres_server> kept_server;

std::unique_ptr<postgres_server> fresh_server() {
    if (!kept_server) {
        return std::make_unique<postgres_server>(postgres_server_options{.controlled_clock = true});
    }
    kept_server->run("TRUNCATE syncguard_locks, syncguard_fence_counters");
    return std::move(kept_server);
}

class postgres_fixture : public engine_fixture {
  public:
    ~postgres_fixture() override {
        if (server_->clock_is_frozen()) kept_server = std::move(server_);
    }

    any_backend open(backend_options options) override {
        return postgres::backend({.connection = server_->url()}, std::move(options));
    }
    [[nodiscard]] unix_time now() const override { return server_->now(); }
    void advance(milliseconds step) override { server_->advance(step); }
    [[nodiscard]] bool stores_nul() const override { return false; }
    void set_fence_counter(const std::string& key, std::uint64_t counter) override {
        server_->run("INSERT INTO syncguard_fence_counters VALUES ($1, $2)",
                     {"fence:" + key, std::to_string(counter)});
    }
    [[nodiscard]] bool delete_fence_counter(const std::string& key) override {
        server_->run("DELETE FROM syncguard_fence_counters WHERE fence_key = $1", {"fence:" + key});
        return true;
    }
    [[nodiscard]] std::string url() override {
        server_->set_offset(milliseconds(0));
        return server_->url();
    }

  private:
    std::unique_ptr<postgres_server> server_ = fresh_server();
};

}  // namespace

std::unique_ptr<engine_fixture> make_postgres_fixture() {
    return std::make_unique<postgres_fixture>();
}

}  // namespace syncguard::test
