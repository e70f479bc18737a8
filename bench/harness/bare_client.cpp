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

/// As many as the engine has under way.
constexpr std::size_t most_calls = 3;

/// Nobody could answer for a lock that was not granted: the race has no result then.
[[noreturn]] void give_up(const char* why) {
    (void)std::fprintf(stderr, "bare client: %s\n", why);
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
    auto& who = callers_[thread];
    perform(who, who.acquire);
    perform(who, who.release);
}

void bare_client::perform(caller& who, const redis::script_input& wish) {
    {
        const std::lock_guard guard(mutex_);
        who.wish = &wish;
        who.answered = false;
        who.place = dormitory_.assign();
        waiting_.push_back(&who);
        send_what_is_worth_a_call();
    }
    while (true) {
        const auto seen = dormitory_.time_in(who.place);
        if (who.answered) return;
        if (!somebody_receives_.exchange(true)) {
            receive_until_answered(who);
            return;
        }
        dormitory_.sleep(who.place, seen);
    }
}

/// With the lock held.
void bare_client::send_what_is_worth_a_call() {
    std::size_t others = 0;
    for (const auto& call : under_way_)
        others += call.size();
    const std::size_t share = (others + most_calls - 2) / (most_calls - 1);
    if (waiting_.empty() || under_way_.size() >= most_calls || waiting_.size() < share) return;

    const auto by_kind = [](const caller* one, const caller* other) {
        return redis::comes_before(*one->wish, *other->wish);
    };
    std::sort(waiting_.begin(), waiting_.end(), by_kind);
    std::vector<const redis::script_input*> wishes;
    for (const auto* each : waiting_)
        wishes.push_back(each->wish);
    std::string bytes;
    redis::append_call(bytes, wishes, true);
    under_way_.push_back(std::exchange(waiting_, {}));
    const auto sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(bytes.size())) give_up("the connection broke");
}

void bare_client::receive_until_answered(caller& who) noexcept {
    while (!who.answered) {
        const auto room = reader_.prepare(16'384);
        const auto count = ::recv(socket_.get(), room.data(), room.size(), 0);
        if (count <= 0) give_up("the connection broke");
        reader_.commit(static_cast<std::size_t>(count));
        while (const auto reply = reader_.next())
            finish_oldest_call(*reply);
    }
    const std::lock_guard guard(mutex_);
    somebody_receives_ = false;
    if (under_way_.empty()) return;
    net::dormitory::wake_list successor;
    successor.add(under_way_.front().front()->place);
    dormitory_.wake(successor);
}

void bare_client::finish_oldest_call(const redis::resp::value& reply) {
    const auto succeeded = [](const redis::resp::value& each) { return each.integer() > 0; };
    net::dormitory::wake_list sleepers;
    {
        const std::lock_guard guard(mutex_);
        const auto call = std::move(under_way_.front());
        under_way_.pop_front();
        if (reply.size() != call.size() + 1 ||
            !std::all_of(reply.begin(), reply.end(), succeeded)) {
            give_up("an operation was refused; does anybody else use this server?");
        }
        for (auto* each : call) {
            sleepers.add(each->place);
            each->answered = true;
        }
        send_what_is_worth_a_call();
    }
    dormitory_.wake(sleepers);
}

}  // namespace syncguard::bench
