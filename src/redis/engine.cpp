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

options checked(options store) {
    const auto refuse = [](const std::string& why) {
        throw lock_error(error_code::invalid_argument, why);
    };
    if (store.unix_socket.empty() && (store.host.empty() || store.port == 0)) {
        refuse("a Redis server needs a host and a port, or the path of a socket");
    }
    if (constexpr auto longest = sizeof(sockaddr_un::sun_path) - 1;
        store.unix_socket.native().size() > longest) {
        refuse("the path of a socket has at most " + std::to_string(longest) + " bytes");
    }
    const auto is_control = [](char c) {
        return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
    };
    const std::string place = store.host + store.unix_socket.string();
    if (std::any_of(place.begin(), place.end(), is_control)) {
        refuse("the host or socket of a Redis server holds a control character");
    }
    if (!store.unix_socket.empty() && store.tls) {
        refuse("TLS is for servers that are reached by a host name, not by a socket file");
    }
    if (store.connect_timeout <= milliseconds{0} ||
        (store.command_timeout && *store.command_timeout <= milliseconds{0})) {
        refuse("timeouts for Redis must be positive");
    }
    const auto is_visible = [](char c) { return c > ' ' && c < '\x7f'; };
    if (!std::all_of(store.client_name.begin(), store.client_name.end(), is_visible)) {
        refuse("a client name for Redis has no blanks and no special characters");
    }
    return store;
}

}  // namespace

redis_engine::redis_engine(const options& store)
    : client_engine([store = checked(store)] { return std::make_shared<redis::client>(store); }),
      cleanup_in_is_locked_(store.cleanup_in_is_locked),
      keys_(std::make_shared<const key_space>(store.prefix)) {
    client()->prepare();
}

backend_capabilities redis_engine::capabilities() const noexcept {
    return {redis::capabilities::backend, redis::capabilities::supports_fencing,
            redis::capabilities::time_authority};
}

std::shared_ptr<lock_operation> redis_engine::make_operation(const request& what,
                                                             const call_limits& limits,
                                                             completion done) {
    return std::make_shared<lock_operation>(what, limits, cleanup_in_is_locked_, keys_, client(),
                                            std::move(done));
}

backend::backend(options store, backend_options common)
    : basic_backend(std::make_shared<redis_engine>(store), std::move(common)) {}

}  // namespace syncguard::redis
