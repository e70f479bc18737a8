/// The fixture of the Redis engine's tests: a server with a frozen clock, and functions that read
/// its contents.
#pragma once

#include "support/redis_server.hpp"

#include <syncguard/redis.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace syncguard::test {

using namespace std::chrono_literals;

/// The value stored under one key.
struct stored {
    std::string type;
    /// The bytes of a string; for other types the result of DUMP.
    std::string value;
    /// The result of PTTL: -1 for a key without expiry.
    std::int64_t ttl_ms = -1;

    friend bool operator==(const stored&, const stored&) = default;
    friend std::ostream& operator<<(std::ostream& out, const stored& value_stored) {
        return out << value_stored.type << " " << value_stored.value << " (" << value_stored.ttl_ms
                   << " ms)";
    }
};

using everything = std::map<std::string, stored>;

inline everything contents_of(const redis_server& server) {
    redis_connection asking(server.socket_path());
    everything found;
    for (const auto& key : asking.command({"KEYS", "*"}).list) {
        stored entry;
        entry.type = asking.command({"TYPE", key.text}).text;
        entry.value = asking.command({entry.type == "string" ? "GET" : "DUMP", key.text}).text;
        entry.ttl_ms = asking.command({"PTTL", key.text}).integer;
        found.emplace(key.text, entry);
    }
    return found;
}

inline std::string digits(unix_time time) {
    return std::to_string(time.time_since_epoch().count());
}

/// A lock as this library writes it. `json_key` is the user's key with quotes.
inline std::string lock_json(std::string_view id, unix_time expires, unix_time acquired,
                             const std::string& json_key, const std::string& fence) {
    return R"({"lockId":")" + std::string(id) + R"(","expiresAtMs":)" + digits(expires) +
           R"(,"acquiredAtMs":)" + digits(acquired) + R"(,"key":)" + json_key + R"(,"fence":")" +
           fence + R"("})";
}

class on_redis : public testing::Test {
  protected:
    [[nodiscard]] redis::backend open(redis::options store = {}) const {
        store.port = server_.port();
        return redis::backend(std::move(store));
    }
    [[nodiscard]] everything contents() const { return contents_of(server_); }

    redis_reply command(const std::vector<std::string>& arguments) const {
        auto reply = server_.command(arguments);
        if (reply.is_error) throw std::runtime_error(reply.text);
        return reply;
    }

    /// Acquires a lock and detaches the lease: the lock stays.
    static lock_id take(const redis::backend& locks, std::string_view key, milliseconds ttl = 30s) {
        auto lease = locks.acquire(key, {.ttl = ttl});
        if (!lease) throw std::runtime_error("the key is locked already");
        return lease->detach();
    }

    redis_server server_{{.controlled_clock = true}};
};

}  // namespace syncguard::test
