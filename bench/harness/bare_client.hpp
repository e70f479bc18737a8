/// A minimal client, which does little more than let threads wait: a reference for the engine.
#pragma once

#include "net/parking_lot.hpp"
#include "redis/resp/reader.hpp"
#include "redis/script_call.hpp"
#include "support/owned_fd.hpp"
#include "support/redis_server.hpp"

#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>
#include <vector>

namespace syncguard::bench {

/// Sends the engine's calls in batches, as the engine does, but only calls encoded in advance, over
/// one connection that must not break, without deadlines, errors or cancellation. The rest is the
/// cost of the system: a thread sleeps and is woken, and bytes go to the server and back.
class bare_client {
  public:
    bare_client(const test::redis_server& server, std::size_t threads);
    bare_client(const bare_client&) = delete;
    bare_client& operator=(const bare_client&) = delete;
    ~bare_client() = default;

    /// Acquires and releases the lock of this thread. Only one call at a time for each number.
    void pair(std::size_t thread);

  private:
    struct alignas(64) caller {
        redis::script_args acquire;
        redis::script_args release;
        const redis::script_args* args = nullptr;
        std::atomic<bool> answered{false};
        net::parking_lot::slot slot;
    };

    void execute(caller& own, const redis::script_args& args);
    void send_if_batch_is_ready();
    void receive_until_answered(caller& own) noexcept;
    void finish_oldest_call(const redis::resp::value& reply);

    test::owned_fd socket_;
    std::deque<caller> callers_;

    std::mutex mutex_;
    std::vector<caller*> waiting_;
    std::deque<std::vector<caller*>> under_way_;
    net::parking_lot parking_lot_;

    // One waiting caller receives for all.
    std::atomic<bool> has_receiver_{false};
    redis::resp::reader reader_;
};

}  // namespace syncguard::bench
