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

/// The addresses of an origin; empty if they were not found before `until`. `server_name` names the
/// server in messages. Throws `lock_error`: service_unavailable if there is no such host; after a
/// cancellation, at once, its reason.
[[nodiscard]] boost::asio::awaitable<std::vector<boost::asio::ip::tcp::endpoint>> resolve_host(
    boost::asio::io_context& context, const http_origin& origin, const std::string& server_name,
    std::chrono::steady_clock::time_point until, call_context& ctx);

}  // namespace syncguard::net
