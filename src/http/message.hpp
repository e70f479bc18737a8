/// HTTP requests and responses, as far as the engines need them.
#pragma once

#include <syncguard/error.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace syncguard::net {

/// The server to which requests are sent.
struct http_origin {
    std::string host;
    std::uint16_t port = 443;
    bool tls = true;

    /// `host:port`, for messages and for the Host header.
    [[nodiscard]] std::string authority() const;
    /// Whether it is the local host: `localhost` or a loopback address.
    [[nodiscard]] bool is_loopback() const;
};

/// A URL's origin, and the rest, which begins with '/'.
struct http_location {
    http_origin origin;
    std::string target;
};

/// Reads `http[s]://host[:port][/...]`; nothing if it is something else.
[[nodiscard]] std::optional<http_location> parse_http_url(std::string_view url);

/// Reads `host:port` or `[address]:port`; nothing if it is something else.
[[nodiscard]] std::optional<http_origin> parse_host_and_port(std::string_view text);

struct http_request {
    enum class verb { get, post };

    verb method = verb::post;
    std::string target;
    std::vector<std::pair<std::string, std::string>> headers;
    std::string body;
    /// Whether the request is idempotent. If so, it is sent again if a connection that was kept
    /// alive turns out to be closed.
    bool repeatable = false;
};

struct http_response {
    unsigned status = 0;
    std::string body;
    /// The server's clock, rounded down to whole seconds.
    std::optional<std::chrono::sys_seconds> date;
};

/// Reads the usual form of a date in HTTP, such as "Sun, 06 Nov 1994 08:49:37 GMT"; nothing if it
/// is something else.
[[nodiscard]] std::optional<std::chrono::sys_seconds> parse_http_date(std::string_view text);

/// A request was or may have been sent, and no complete response was received, or its caller did
/// not wait for it: the server may have executed the request.
class response_lost : public lock_error {
  public:
    using lock_error::lock_error;
    explicit response_lost(const lock_error& error) : lock_error(error) {}
};

}  // namespace syncguard::net
