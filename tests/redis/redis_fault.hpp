/// The fixture of the Redis fault tests: a server, a fault proxy in front of it, and an API form.
#pragma once

#include "contract/api_form.hpp"
#include "support/fault_proxy.hpp"
#include "support/redis_server.hpp"

#include <syncguard/redis.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

namespace syncguard::test {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

/// How long a call may take beyond its deadline, because other tests use the processor too.
inline constexpr milliseconds margin{2000};

/// How long a lock may outlive an acquisition that failed.
inline constexpr milliseconds cleanup_time{8'000};

/// Reports no release errors: leases that end while the server is unreachable are expected here.
inline backend_options quiet(milliseconds operation_timeout = 5s) {
    return {.operation_timeout = operation_timeout,
            .on_release_error = [](const lock_error&, const release_error_context&) {},
            .dispose_timeout = {},
            .on_warning = {}};
}

inline bool holds_lock(const redis_server& server, const std::string& key) {
    return server.command({"EXISTS", "syncguard:" + key}).integer == 1;
}

/// How many locks the server stores, without fence counters and indexes.
inline std::size_t locks_in(const redis_server& server) {
    std::size_t count = 0;
    for (const auto& each : server.command({"KEYS", "syncguard:*"}).list) {
        if (!each.text.starts_with("syncguard:fence:") && !each.text.starts_with("syncguard:id:"))
            ++count;
    }
    return count;
}

/// How many connections the library has to the server.
inline std::size_t clients_of(const redis_server& server) {
    const std::string list = server.command({"CLIENT", "LIST"}).text;
    std::size_t count = 0;
    for (auto at = list.find(" name=syncguard "); at != std::string::npos;
         at = list.find(" name=syncguard ", at + 1))
        ++count;
    return count;
}

template <class Action>
milliseconds time_of(Action action) {
    const auto begin = steady_clock::now();
    action();
    return std::chrono::ceil<milliseconds>(steady_clock::now() - begin);
}

class redis_fault : public testing::TestWithParam<api_form_kind> {
  protected:
    [[nodiscard]] any_backend open(milliseconds operation_timeout = 5s) const {
        return redis::backend({.host = "127.0.0.1", .port = proxy_.port(), .connect_timeout = 1s},
                              quiet(operation_timeout));
    }

    redis_server server_;
    fault_proxy proxy_{server_.port()};
    std::unique_ptr<api_form> form_ = GetParam().make();
};

/// The blocking API form and an asynchronous one.
inline auto blocking_and_async() {
    const auto forms = all_api_forms();
    return testing::Values(forms.at(0), forms.at(1));
}

inline std::string name_of_api_form(const testing::TestParamInfo<api_form_kind>& test) {
    return test.param.name;
}

}  // namespace syncguard::test
