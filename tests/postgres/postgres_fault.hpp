/// The fixture of the PostgreSQL fault tests.
#pragma once

#include "support/eventually.hpp"
#include "support/expect_error.hpp"
#include "support/fault_proxy.hpp"
#include "support/postgres_server.hpp"

#include <syncguard/postgres.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

namespace syncguard::test {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

/// How long a call may take beyond its deadline, because other tests use the processor too.
inline constexpr milliseconds margin{1'000};

/// How long a lock may outlive an acquisition that failed.
inline constexpr milliseconds cleanup_time{15'000};

/// Reports no release errors: leases that end while the server is unreachable are expected here.
inline backend_options quiet(milliseconds operation_timeout = 5s) {
    return {.operation_timeout = operation_timeout,
            .on_release_error = [](const lock_error&, const release_error_context&) {},
            .dispose_timeout = {},
            .on_warning = {}};
}

inline bool holds_lock(const postgres_server& server, const std::string& key) {
    return server.value("SELECT count(*) FROM syncguard_locks WHERE key = $1", {key}) == "1";
}

/// One server for all tests of a process, with empty tables for each test and a fault proxy in
/// front of it.
class postgres_fault : public testing::Test {
  protected:
    postgres_fault() { server().run("TRUNCATE syncguard_locks, syncguard_fence_counters"); }

    [[nodiscard]] static postgres_server& server() {
        static postgres_server shared;
        return shared;
    }
    /// Connects through the proxy.
    [[nodiscard]] any_backend open(milliseconds operation_timeout = 5s,
                                   std::size_t pool = 10) const {
        return postgres::backend({.connection = server().url_at(proxy_.port()),
                                  .tables = {},
                                  .pool_size = pool,
                                  .connect_timeout = 2s},
                                 quiet(operation_timeout));
    }

    fault_proxy proxy_{server().port()};
};

}  // namespace syncguard::test
