/// A small blocking Redis client, independent of the library under test.
#pragma once

#include "support/owned_fd.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace syncguard::test {

/// An answer in RESP2. `text` is that of a status, an error or a bulk string.
struct redis_reply {
    std::string text;
    std::int64_t integer = 0;
    std::vector<redis_reply> list;
    bool is_null = false;
    bool is_error = false;
};

/// One connection. Throws `std::runtime_error` if it breaks, or if the server sends nothing for
/// longer than `patience`. An error that the server answers is a reply, not an exception.
class redis_connection {
  public:
    explicit redis_connection(const std::filesystem::path& unix_socket,
                              std::chrono::milliseconds patience = std::chrono::seconds(20));
    /// On 127.0.0.1.
    explicit redis_connection(std::uint16_t port,
                              std::chrono::milliseconds patience = std::chrono::seconds(20));

    /// Arguments may hold any bytes.
    redis_reply command(const std::vector<std::string>& arguments);

    /// The two halves of `command`, for tests that act between them.
    void send(const std::vector<std::string>& arguments);
    [[nodiscard]] redis_reply receive();

  private:
    redis_connection(owned_fd socket, std::chrono::milliseconds patience);

    void receive_more();
    [[nodiscard]] std::string line();
    [[nodiscard]] std::string bytes(std::size_t count);

    owned_fd socket_;
    std::string received_;
};

}  // namespace syncguard::test
