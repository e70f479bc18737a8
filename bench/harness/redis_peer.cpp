#include "harness/redis_peer.hpp"

#include "harness/redis_keys.hpp"

#include <syncguard/lock_id.hpp>

#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace syncguard::bench {

namespace {

constexpr std::string_view acquire_script = R"(
local lock_key, index_key, fence_key = KEYS[1], KEYS[2], KEYS[3]
local lock_id, ttl_ms, tolerance_ms, user_key = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

local stored = redis.call('GET', lock_key)
if stored and cjson.decode(stored).expiresAtMs > now_ms - tolerance_ms then return 0 end

local fence = string.format('%015d', redis.call('INCR', fence_key))
local expires_at_ms = now_ms + ttl_ms
local data = cjson.encode({
  lockId = lock_id, expiresAtMs = expires_at_ms, acquiredAtMs = now_ms, key = user_key, fence = fence
})
redis.call('SET', lock_key, data, 'PX', ttl_ms)
redis.call('SET', index_key, lock_key, 'PX', ttl_ms)
return {1, fence, expires_at_ms}
)";

constexpr std::string_view release_script = R"(
local index_key = KEYS[1]
local lock_id, tolerance_ms = ARGV[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

local lock_key = redis.call('GET', index_key)
if not lock_key then return -1 end
local stored = redis.call('GET', lock_key)
if not stored then return -1 end
local data = cjson.decode(stored)
if data.expiresAtMs <= now_ms - tolerance_ms then return -2 end
if data.lockId ~= lock_id then return 0 end
redis.call('DEL', lock_key, index_key)
return 1
)";

/// The success reply of the specification's scripts: 1, alone or before the fence and the expiry.
bool begins_with_1(const redisReply& reply) {
    if (reply.type == REDIS_REPLY_ARRAY) {
        return reply.elements > 0 && begins_with_1(*reply.element[0]);
    }
    return reply.type == REDIS_REPLY_INTEGER && reply.integer == 1;
}

void require(bool success, std::string_view operation) {
    if (success) return;
    throw std::runtime_error("hiredis: " + std::string(operation) +
                             " was refused; does anybody else use this server?");
}

void begin_call(redis_command& command, const std::string& sha1) {
    command.clear();
    command.emplace_back("EVALSHA");
    command.push_back(sha1);
}

}  // namespace

scripted_call acquire_as_specified(std::string_view user_key) {
    return {.script = std::string(acquire_script),
            .append_arguments =
                [key = std::string(user_key)](std::string_view lock_id, redis_command& command) {
                    command.insert(command.end(),
                                   {"3", lock_key(key), index_key(lock_id), fence_key(key),
                                    std::string(lock_id), "30000", "1000", key});
                },
            .says_success = begins_with_1};
}

scripted_call release_as_specified() {
    return {.script = std::string(release_script),
            .append_arguments =
                [](std::string_view lock_id, redis_command& command) {
                    command.insert(command.end(),
                                   {"1", index_key(lock_id), std::string(lock_id), "1000"});
                },
            .says_success = begins_with_1};
}

blocking_pairs::blocking_pairs(const test::redis_server& server, scripted_call acquire,
                               scripted_call release)
    : connection_(redis_connection::over_tcp(server.port())),
      acquire_{connection_.load_script(acquire.script), std::move(acquire)},
      release_{connection_.load_script(release.script), std::move(release)} {}

void blocking_pairs::pair() {
    const auto id = lock_id::generate();
    perform(acquire_, id);
    perform(release_, id);
}

void blocking_pairs::perform(const loaded_call& call, std::string_view lock_id) {
    begin_call(command_, call.sha1);
    call.scripted.append_arguments(lock_id, command_);
    require(call.scripted.says_success(*connection_.call(command_)), "an operation");
}

pipelined_spec_scripts::pipelined_spec_scripts(const test::redis_server& server)
    : connection_(redis_connection::over_tcp(server.port())),
      acquire_sha1_(connection_.load_script(acquire_script)),
      release_sha1_(connection_.load_script(release_script)) {}

double pipelined_spec_scripts::operations_per_second(std::chrono::milliseconds warm_up,
                                                     std::chrono::milliseconds span) {
    using clock = std::chrono::steady_clock;
    struct slot {
        scripted_call acquire;
        std::optional<lock_id> held;
    };
    std::vector<slot> slots;
    for (std::size_t i = 0; i < depth; ++i)
        slots.push_back({acquire_as_specified("bench:pipelined:" + std::to_string(i)), {}});
    const auto release = release_as_specified();

    redis_command command;
    const auto send_acquire = [&](slot& entry) {
        entry.held = lock_id::generate();
        begin_call(command, acquire_sha1_);
        entry.acquire.append_arguments(*entry.held, command);
        connection_.append(command);
    };
    const auto send_release = [&](slot& entry) {
        begin_call(command, release_sha1_);
        release.append_arguments(*entry.held, command);
        entry.held.reset();
        connection_.append(command);
    };
    // Replies arrive in the order of the calls, and after each reply the next call of its slot is
    // sent: a turn reads one reply for each slot.
    long operations = 0;
    const auto turn = [&](const auto& send) {
        for (auto& each : slots) {
            require(begins_with_1(*connection_.next_reply()), "a pipelined operation");
            ++operations;
            send(each);
        }
    };
    const auto run_until = [&](clock::time_point end) {
        while (clock::now() < end) {
            turn(send_release);
            turn(send_acquire);
        }
    };

    for (auto& each : slots)
        send_acquire(each);
    run_until(clock::now() + warm_up);
    operations = 0;
    const auto begin = clock::now();
    run_until(begin + span);
    const std::chrono::duration<double> elapsed = clock::now() - begin;
    const double figure = static_cast<double>(operations) / elapsed.count();

    turn(send_release);
    turn([](slot&) {});
    return figure;
}

}  // namespace syncguard::bench
