#include "harness/bare_client.hpp"

#include "redis/lock_protocol.hpp"
#include "redis/scripts.hpp"
#include "support/loopback.hpp"
#include "support/redis_connection.hpp"

#include <syncguard/engine.hpp>
#include <syncguard/lock_id.hpp>
#include <syncguard/time.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

namespace syncguard::bench {

namespace {

/// As many calls under way as the engine has.
constexpr std::size_t max_calls = 3;

/// Ends the program: without every lock granted, the measurement is invalid.
[[noreturn]] void fail(const char* message) {
    (void)std::fprintf(stderr, "bare client: %s\n", message);
    std::abort();
}

}  // namespace

bare_client::bare_client(const test::redis_server& server, std::size_t threads)
    : socket_(test::connect_to_loopback(server.port())) {
    test::redis_connection(server.port())
        .command({"SCRIPT", "LOAD", std::string(redis::lock_script().text)});
    const redis::key_space keys("syncguard");
    for (std::size_t i = 0; i < threads; ++i) {
        const std::string key = "bench:bare:" + std::to_string(i);
        const auto id = lock_id::generate();
        auto& each = callers_.emplace_back();
        each.acquire = redis::encode(
            acquire_request{.key = key, .id = id, .ttl = milliseconds(30'000)}, keys, false);
        each.release = redis::encode(release_request{.id = id, .key = key}, keys, false);
    }
}

void bare_client::pair(std::size_t thread) {
    auto& own = callers_[thread];
    execute(own, own.acquire);
    execute(own, own.release);
}

void bare_client::execute(caller& own, const redis::script_args& args) {
    {
        const std::lock_guard guard(mutex_);
        own.args = &args;
        own.answered = false;
        own.slot = parking_lot_.allocate_slot();
        waiting_.push_back(&own);
        send_if_batch_is_ready();
    }
    while (true) {
        const auto seen = parking_lot_.epoch(own.slot);
        if (own.answered) return;
        if (!has_receiver_.exchange(true)) {
            receive_until_answered(own);
            return;
        }
        parking_lot_.park(own.slot, seen);
    }
}

/// The caller holds `mutex_`.
void bare_client::send_if_batch_is_ready() {
    std::size_t others = 0;
    for (const auto& call : under_way_)
        others += call.size();
    const std::size_t share = (others + max_calls - 2) / (max_calls - 1);
    if (waiting_.empty() || under_way_.size() >= max_calls || waiting_.size() < share) return;

    const auto by_kind = [](const caller* one, const caller* other) {
        return redis::batch_order(*one->args, *other->args);
    };
    std::sort(waiting_.begin(), waiting_.end(), by_kind);
    std::vector<const redis::script_args*> args;
    for (const auto* each : waiting_)
        args.push_back(each->args);
    std::string bytes;
    redis::append_evalsha(bytes, args, true);
    under_way_.push_back(std::exchange(waiting_, {}));
    const auto sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(bytes.size())) fail("the connection broke");
}

void bare_client::receive_until_answered(caller& own) noexcept {
    while (!own.answered) {
        const auto bucket = reader_.prepare(16'384);
        const auto count = ::recv(socket_.get(), bucket.data(), bucket.size(), 0);
        if (count <= 0) fail("the connection broke");
        reader_.commit(static_cast<std::size_t>(count));
        while (const auto reply = reader_.next())
            finish_oldest_call(*reply);
    }
    const std::lock_guard guard(mutex_);
    has_receiver_ = false;
    if (under_way_.empty()) return;
    net::parking_lot::wake_list successor;
    successor.add(under_way_.front().front()->slot);
    parking_lot_.unpark(successor);
}

void bare_client::finish_oldest_call(const redis::resp::value& reply) {
    const auto succeeded = [](const redis::resp::value& each) { return each.integer() > 0; };
    net::parking_lot::wake_list sleepers;
    {
        const std::lock_guard guard(mutex_);
        const auto call = std::move(under_way_.front());
        under_way_.pop_front();
        if (reply.size() != call.size() + 1 ||
            !std::all_of(reply.begin(), reply.end(), succeeded)) {
            fail("an operation was refused; does anybody else use this server?");
        }
        for (auto* each : call) {
            sleepers.add(each->slot);
            each->answered = true;
        }
        send_if_batch_is_ready();
    }
    parking_lot_.unpark(sleepers);
}

}  // namespace syncguard::bench
