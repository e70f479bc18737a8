/// A handwritten alternative to the Redis engine: scripts, sent by hiredis.
#pragma once

#include "harness/redis_connection.hpp"
#include "support/redis_server.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace syncguard::bench {

/// A script, the arguments of a call, and a test of the reply for success.
struct scripted_call {
    std::string script;
    /// Appends the arguments after the script's SHA-1 in an EVALSHA: the number of keys, KEYS and
    /// ARGV.
    std::function<void(std::string_view lock_id, redis_command& command)> append_arguments;
    bool (*says_success)(const redisReply& reply);
};

/// Acquires and releases on one thread, and waits for every reply.
class blocking_pairs {
  public:
    blocking_pairs(const test::redis_server& server, scripted_call acquire, scripted_call release);

    /// One acquisition under a fresh lock id, and its release. Throws unless both succeed.
    void pair();

  private:
    struct loaded_call {
        std::string sha1;
        scripted_call scripted;
    };
    void perform(const loaded_call& call, std::string_view lock_id);

    redis_connection connection_;
    loaded_call acquire_;
    loaded_call release_;
    redis_command command_;
};

/// The scripts of the specification: one call for each operation, JSON by cjson.
scripted_call acquire_as_specified(std::string_view user_key);
scripted_call release_as_specified();

/// The same scripts in a pipeline on one connection: `depth` locks, for each of which an
/// acquisition or release is always outstanding.
class pipelined_spec_scripts {
  public:
    static constexpr std::size_t depth = 256;

    explicit pipelined_spec_scripts(const test::redis_server& server);

    /// Acquisitions and releases count separately. Throws unless all succeed.
    double operations_per_second(std::chrono::milliseconds warm_up, std::chrono::milliseconds span);

  private:
    redis_connection connection_;
    std::string acquire_sha1_;
    std::string release_sha1_;
};

}  // namespace syncguard::bench
