/// Client of Firestore's REST interface: adds the access token and the path. Independent of locks.
#pragma once

#include "firestore/clock_estimate.hpp"
#include "firestore/token_source.hpp"
#include "http/pool.hpp"

#include <syncguard/firestore.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace syncguard::firestore {

/// Address and credentials of the service, determined once when the engine is made.
struct service_config {
    net::http_origin origin;
    firestore::credentials credentials;
    std::string server_name;  ///< Names the server in messages.
};

/// Reads the options, the environment and the credentials file. Throws `lock_error`
/// (invalid_argument).
[[nodiscard]] service_config find_service_config(const options& opts);

/// The address of the service, by the options and the environment. Throws `lock_error`
/// (invalid_argument).
[[nodiscard]] net::http_origin find_origin(const options& opts);

/// Thread safety: none; used by the thread that runs the context.
class service {
  public:
    /// All references must outlive the service.
    service(boost::asio::io_context& context, const service_config& config, const options& opts,
            net::lazy_tls_context& tls, net::socket_registry& sockets);

    [[nodiscard]] const std::string& server_name() const noexcept { return server_.server_name(); }

    /// Calls a method of the documents' root, such as "batchGet". Throws as `http_pool::request`
    /// does, or because it cannot get a token.
    [[nodiscard]] boost::asio::awaitable<net::http_response> call(std::string_view method,
                                                                  std::string body, bool repeatable,
                                                                  net::call_context& ctx);

    /// Sends a request only for the `Date` of its answer. False if there is none.
    [[nodiscard]] boost::asio::awaitable<bool> ask_for_time(net::call_context& ctx);

    /// The estimate of the server's clock from all answers so far.
    [[nodiscard]] const clock_estimate& clocks() const noexcept { return clocks_; }

    [[nodiscard]] bool is_emulator() const noexcept { return is_emulator_; }

    [[nodiscard]] token_source& tokens() noexcept { return tokens_; }
    [[nodiscard]] const token_source& tokens() const noexcept { return tokens_; }

  private:
    [[nodiscard]] boost::asio::awaitable<net::http_response> send(const net::http_request& request,
                                                                  net::call_context& ctx);

    const wall_clock clock_;
    const std::string root_;
    const bool is_emulator_;
    net::http_pool server_;
    token_source tokens_;
    clock_estimate clocks_;
};

}  // namespace syncguard::firestore
