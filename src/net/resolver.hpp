/// Name lookup: from the name of a host to its addresses.
#pragma once

#include "http/call_context.hpp"
#include "http/message.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace syncguard::net {

/// The addresses of an origin; none if they were not found by that time. `server_name` is what
/// messages call the server. Throws `lock_error`: service_unavailable if there is no such host, and
/// the reason of a cancellation, at once.
[[nodiscard]] boost::asio::awaitable<std::vector<boost::asio::ip::tcp::endpoint>> resolve_host(
    boost::asio::io_context& context, const http_origin& origin, const std::string& server_name,
    std::chrono::steady_clock::time_point until, call_context& ctx);

}  // namespace syncguard::net
