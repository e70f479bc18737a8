/// A real redis-server, used by one test only.
#pragma once

#include "support/controlled_clock/controlled_clock.hpp"
#include "support/loopback.hpp"
#include "support/redis_connection.hpp"
#include "support/temporary_folder.hpp"

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace syncguard::test {

/// Makes the server listen for TLS on a second port.
struct redis_tls {
    std::filesystem::path certificate;
    std::filesystem::path key;
    /// The CA that signs the clients' certificates.
    std::filesystem::path ca;
    /// Whether a client must send a certificate.
    bool clients_need_certificates = false;
};

struct redis_server_options {
    /// For the command line of redis-server, such as {"--requirepass", "x"}. They override the
    /// defaults: no persistence, 127.0.0.1 only.
    std::vector<std::string> arguments = {};
    /// Used by `command` and the wait for the server's start, if the server requires
    /// authentication. A password without a user name is that of the default user.
    std::string username = {};
    std::string password = {};
    std::optional<redis_tls> tls = {};
    /// Whether the test controls the server's time. It then starts frozen at the host's time.
    bool controlled_clock = false;
};

/// Runs from construction to destruction, in a folder of its own, on ports of its own. Ends with
/// the thread that started it, even if the test crashes.
class redis_server {
  public:
    /// Returns when the server answers; throws with the end of its log if it does not.
    explicit redis_server(redis_server_options options = {});
    redis_server(const redis_server&) = delete;
    redis_server& operator=(const redis_server&) = delete;
    ~redis_server();

    [[nodiscard]] std::uint16_t port() const { return port_.number(); }
    /// For a server with TLS.
    [[nodiscard]] std::uint16_t tls_port() const { return tls_port_.number(); }
    [[nodiscard]] std::filesystem::path socket_path() const { return folder_ / "redis.sock"; }
    [[nodiscard]] std::string url() const;
    /// The server's log so far.
    [[nodiscard]] std::string log() const;

    /// Less than 1 while the server is down.
    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    /// Kills the server, as a crash does: data that is not on disk is lost.
    void kill();
    /// Starts the server again, after a `kill` if it is running, on the same ports and in the same
    /// folder.
    void restart();
    /// Between `pause` and `resume` the server sends nothing; the system still accepts connections
    /// for it.
    void pause() const;
    void resume() const;

    /// Sends one command on a new connection.
    redis_reply command(const std::vector<std::string>& arguments) const;

    /// The time by the server's own clock.
    [[nodiscard]] std::chrono::sys_time<std::chrono::milliseconds> now() const;
    /// For a controlled clock: steps it. It may be frozen or running.
    void advance(std::chrono::milliseconds step);
    /// For a controlled clock: runs it from now on, ahead of the host's by this offset.
    void set_offset(std::chrono::milliseconds ahead_of_host);

  private:
    void start();
    [[nodiscard]] controlled_clock& clock();
    [[nodiscard]] std::vector<std::string> command_line() const;
    [[nodiscard]] std::vector<std::string> environment() const;
    [[nodiscard]] bool answers() const;
    [[nodiscard]] bool has_ended();

    redis_server_options options_;
    temporary_folder folder_;
    std::optional<controlled_clock> clock_;
    reserved_port port_;
    reserved_port tls_port_;
    pid_t pid_ = -1;
};

}  // namespace syncguard::test
