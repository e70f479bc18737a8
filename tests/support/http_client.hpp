/// A plain blocking HTTP client that shares no code with the library.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace syncguard::test {

/// One connection to a port of 127.0.0.1, used as long as the server keeps it open. Throws
/// `std::exception` if it breaks.
class http_client {
  public:
    explicit http_client(std::uint16_t port);
    http_client(const http_client&) = delete;
    http_client& operator=(const http_client&) = delete;
    ~http_client();

    struct answer {
        unsigned status = 0;
        std::string body;
    };
    /// Sends the token that the emulator accepts as its owner's.
    answer send(const std::string& method, const std::string& target, const std::string& body = {});

  private:
    struct connection;
    std::unique_ptr<connection> connection_;
};

}  // namespace syncguard::test
