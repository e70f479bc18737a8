/// RAII wrapper of hiredis that reports errors as exceptions.
#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace syncguard::bench {

struct redis_freer {
    void operator()(redisReply* reply) const noexcept { freeReplyObject(reply); }
    void operator()(redisContext* context) const noexcept { redisFree(context); }
};
using redis_reply = std::unique_ptr<redisReply, redis_freer>;

/// A command and its arguments.
using redis_command = std::vector<std::string>;

/// One blocking connection. Every failure, an error reply included, is a `std::runtime_error`.
class redis_connection {
  public:
    [[nodiscard]] static redis_connection over_tcp(int port);
    [[nodiscard]] static redis_connection over_socket(const std::filesystem::path& socket);

    redis_reply call(const redis_command& command);

    /// Queues the command. It is sent together with others, at the latest when their replies are
    /// read.
    void append(const redis_command& command);
    /// The reply to the oldest command that was appended and not answered yet.
    redis_reply next_reply();

    /// Loads a script into the server; returns its SHA-1.
    std::string load_script(std::string_view text);

  private:
    explicit redis_connection(redisContext* context);
    void point_to(const redis_command& command);
    redis_reply checked(void* reply) const;

    std::unique_ptr<redisContext, redis_freer> context_;
    std::vector<const char*> pointers_;
    std::vector<std::size_t> lengths_;
};

}  // namespace syncguard::bench
