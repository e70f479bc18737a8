#include "redis/engine.hpp"

#include "redis/lock_operation.hpp"

#include <syncguard/error.hpp>

#include <sys/un.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace syncguard::redis {

namespace {

options checked(options opts) {
    const auto refuse = [](const std::string& message) {
        throw lock_error(error_code::invalid_argument, message);
    };
    if (opts.unix_socket.empty() && (opts.host.empty() || opts.port == 0)) {
        refuse("a Redis server needs a host and a port, or the path of a socket");
    }
    if (constexpr auto longest = sizeof(sockaddr_un::sun_path) - 1;
        opts.unix_socket.native().size() > longest) {
        refuse("the path of a socket has at most " + std::to_string(longest) + " bytes");
    }
    const auto is_control = [](char c) {
        return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
    };
    const std::string address = opts.host + opts.unix_socket.string();
    if (std::any_of(address.begin(), address.end(), is_control)) {
        refuse("the host or socket of a Redis server holds a control character");
    }
    if (!opts.unix_socket.empty() && opts.tls) {
        refuse("TLS is for servers that are reached by a host name, not by a socket file");
    }
    if (opts.connect_timeout <= milliseconds{0} ||
        (opts.command_timeout && *opts.command_timeout <= milliseconds{0})) {
        refuse("timeouts for Redis must be positive");
    }
    const auto is_visible = [](char c) { return c > ' ' && c < '\x7f'; };
    if (!std::all_of(opts.client_name.begin(), opts.client_name.end(), is_visible)) {
        refuse("a client name for Redis has no blanks and no special characters");
    }
    return opts;
}

}  // namespace

redis_engine::redis_engine(const options& opts)
    : client_engine([opts = checked(opts)] { return std::make_shared<redis::client>(opts); }),
      cleanup_in_is_locked_(opts.cleanup_in_is_locked),
      keys_(std::make_shared<const key_space>(opts.prefix)) {
    client()->prepare();
}

backend_capabilities redis_engine::capabilities() const noexcept {
    return {redis::capabilities::backend, redis::capabilities::supports_fencing,
            redis::capabilities::time_authority};
}

std::shared_ptr<lock_operation> redis_engine::make_operation(const request& req,
                                                             const call_limits& limits,
                                                             completion handler) {
    return std::make_shared<lock_operation>(req, limits, cleanup_in_is_locked_, keys_, client(),
                                            std::move(handler));
}

backend::backend(options opts, backend_options common)
    : basic_backend(std::make_shared<redis_engine>(opts), std::move(common)) {}

}  // namespace syncguard::redis
