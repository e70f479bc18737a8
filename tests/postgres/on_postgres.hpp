/// The fixture of the PostgreSQL engine's tests: a server with a frozen clock, and functions that
/// read its contents. All tests of a process share one server.
#pragma once

#include "support/postgres_server.hpp"

#include <syncguard/postgres.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace syncguard::test {

using namespace std::chrono_literals;

class on_postgres : public testing::Test {
  protected:
    on_postgres() {
        if (!shared_server) {
            shared_server = std::make_unique<postgres_server>(
                postgres_server_options{.controlled_clock = true});
        }
        server().run("TRUNCATE syncguard_locks, syncguard_fence_counters");
    }

    [[nodiscard]] static postgres_server& server() { return *shared_server; }
    [[nodiscard]] static postgres::backend open(postgres::options store = {}) {
        if (store.connection.empty()) store.connection = server().url();
        return postgres::backend(std::move(store));
    }
    [[nodiscard]] static std::string digits(unix_time time) {
        return std::to_string(time.time_since_epoch().count());
    }
    /// Acquires a lock and detaches the lease: the lock stays.
    static lock_id take(const postgres::backend& locks, std::string_view key,
                        milliseconds ttl = 30s) {
        auto lease = locks.acquire(key, {.ttl = ttl});
        if (!lease) throw std::runtime_error("the key is locked already");
        return lease->detach();
    }

  private:
    static inline std::unique_ptr<postgres_server> shared_server;
};

}  // namespace syncguard::test
