/// Cache of the access token, which is fetched when needed and renewed before it expires.
#pragma once

#include "firestore/credentials.hpp"
#include "http/pool.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace syncguard::firestore {

/// At most one request for a token is in flight; all callers wait for the same one.
///
/// Thread safety: none; used by the thread that runs the context.
class token_source {
  public:
    token_source(boost::asio::io_context& context, credentials creds, net::lazy_tls_context& tls,
                 net::socket_registry& sockets);
    token_source(const token_source&) = delete;
    token_source& operator=(const token_source&) = delete;
    ~token_source() = default;

    /// A valid token. Throws `lock_error` if none can be fetched.
    [[nodiscard]] boost::asio::awaitable<std::string> get(net::call_context& ctx);

    /// The server did not accept the token: the next `get` fetches another.
    void reject(std::string_view token);

    /// Whether a request is in flight. Until it has ended, a thread must run the context.
    [[nodiscard]] bool is_fetching() const noexcept { return fetching_ != nullptr; }
    void stop();

  private:
    using time_point = std::chrono::steady_clock::time_point;

    class fetch_guard;

    void begin_fetching();
    [[nodiscard]] boost::asio::awaitable<void> fetch(fetch_guard guard);
    /// The error to report if there is no source of tokens.
    [[nodiscard]] lock_error explained(const lock_error& error) const;

    boost::asio::io_context& context_;
    const credentials credentials_;
    net::http_pool server_;
    boost::asio::steady_timer changed_;
    std::shared_ptr<net::call_context> fetching_;
    std::string token_;
    time_point renew_at_{};
    time_point usable_until_{};
    std::optional<lock_error> failure_;  ///< Of the last attempt.
};

}  // namespace syncguard::firestore
