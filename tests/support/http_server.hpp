/// A small HTTP server on 127.0.0.1 whose answers a test decides.
#pragma once

#include "support/certificates.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace syncguard::test {

struct http_received {
    std::string method;
    std::string target;
    std::map<std::string, std::string> headers;  ///< Names are in lower case.
    std::string body;
};

struct http_reply {
    unsigned status = 200;
    std::string body{};
    std::vector<std::pair<std::string, std::string>> headers{};
    /// Bytes sent before the answer.
    std::string before{};
    /// Sent unchanged, instead of the answer that the members above describe.
    std::string raw{};
    /// Bytes sent after the answer in the same segment; over TLS, in a record of their own.
    std::string behind{};
    /// Closes the connection without an answer.
    bool cut = false;
    /// Closes the connection after the answer, although the answer does not announce it.
    bool close_behind = false;
};

/// Serves every connection on a thread of its own.
class http_server {
  public:
    /// Called by several threads. Must not block for ever.
    using handler = std::function<http_reply(const http_received&)>;

    explicit http_server(handler answer, std::optional<certificate_files> tls = {});
    http_server(const http_server&) = delete;
    http_server& operator=(const http_server&) = delete;
    ~http_server();

    [[nodiscard]] std::uint16_t port() const;
    /// `http://127.0.0.1:port`, or the same with `https` and `localhost`.
    [[nodiscard]] std::string url() const;
    /// Connections accepted so far.
    [[nodiscard]] std::size_t connections() const;

  private:
    struct state;
    std::unique_ptr<state> state_;
};

}  // namespace syncguard::test
