#include "harness/live_locks.hpp"

#include "harness/redis_connection.hpp"
#include "harness/redis_keys.hpp"

#include <syncguard/lock_id.hpp>

#include <algorithm>
#include <string>

namespace syncguard::bench {

namespace {

const std::string a_day_in_ms = "86400000";

std::string lock_value(const std::string& user_key, const lock_id& id) {
    return R"({"lockId":")" + id.to_string() +
           R"(","expiresAtMs":4102444800000,"acquiredAtMs":1700000000000,"key":")" + user_key +
           R"(","fence":"000000000000001"})";
}

}  // namespace

void fill_with_live_locks(const test::redis_server& server, int count) {
    constexpr int locks_in_a_batch = 1000;
    auto connection = redis_connection::over_socket(server.socket_path());
    for (int first = 0; first < count; first += locks_in_a_batch) {
        const int end = std::min(count, first + locks_in_a_batch);
        for (int i = first; i < end; ++i) {
            const std::string user_key = "live:" + std::to_string(i);
            const auto id = lock_id::generate();
            connection.append(
                {"SET", lock_key(user_key), lock_value(user_key, id), "PX", a_day_in_ms});
            connection.append({"SET", index_key(id), lock_key(user_key), "PX", a_day_in_ms});
            connection.append({"INCR", fence_key(user_key)});
        }
        for (int replies = 3 * (end - first); replies > 0; --replies)
            connection.next_reply();
    }
}

}  // namespace syncguard::bench
