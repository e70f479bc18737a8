/// A real PostgreSQL server, used by one test only.
#pragma once

#include "support/certificates.hpp"
#include "support/controlled_clock/controlled_clock.hpp"
#include "support/loopback.hpp"
#include "support/postgres_connection.hpp"
#include "support/temporary_folder.hpp"

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace syncguard::test {

class postgres_server;

struct postgres_server_options {
    /// Settings such as "max_connections=5". They override the defaults.
    std::vector<std::string> settings = {};
    /// Lines for pg_hba.conf, added to the one that lets the superuser connect by the socket. If
    /// empty, every user may connect by TCP, too.
    std::string host_rules = {};
    /// Whether the test controls the server's time. It then starts frozen at the host's time.
    bool controlled_clock = false;
    /// Whether commits are written to disk before they are acknowledged.
    bool durable = false;
    /// Whether the tables of docs/storage.md are created at the start.
    bool with_tables = true;
    /// Enables TLS; connections without TLS are still accepted.
    std::optional<certificate_files> certificate = {};
    /// Makes this server a read-only standby of `primary`. No tables are created on it.
    const postgres_server* primary = nullptr;
};

/// Runs from construction to destruction, in a folder of its own, on a port of its own; as the user
/// `postgres` if the test runs as root. Ends with the thread that started it, even if the test
/// crashes.
class postgres_server {
  public:
    /// Returns when the server answers; throws with the end of its log if it does not.
    explicit postgres_server(postgres_server_options options = {});
    postgres_server(const postgres_server&) = delete;
    postgres_server& operator=(const postgres_server&) = delete;
    ~postgres_server();

    [[nodiscard]] std::uint16_t port() const { return port_.number(); }
    /// For libpq, by TCP.
    [[nodiscard]] std::string url() const;
    [[nodiscard]] std::string url_at(std::uint16_t port) const;
    /// The socket's folder, for libpq's `host`.
    [[nodiscard]] std::filesystem::path socket_folder() const { return folder_.path(); }
    [[nodiscard]] std::filesystem::path data_folder() const { return folder_ / "data"; }
    [[nodiscard]] std::string log() const;

    /// Kills all its processes, as a crash of the machine does.
    void kill();
    /// Shuts down as an administrator does: connections are closed, committed data is kept.
    void shut_down();
    /// Starts the server again, after a `kill` if it is running.
    void restart();

    /// Makes a standby leave its primary and accept writes from now on.
    void promote();

    /// Connects through the socket, as superuser.
    [[nodiscard]] postgres_connection connect() const;
    /// Runs statements on a new connection.
    postgres_rows run(const std::string& sql,
                      const std::vector<std::string>& parameters = {}) const;
    std::string value(const std::string& sql,
                      const std::vector<std::string>& parameters = {}) const;

    /// The time by the server's own clock.
    [[nodiscard]] std::chrono::sys_time<std::chrono::milliseconds> now() const;
    /// For a controlled clock: whether it is still frozen. Tests that share the server share its
    /// clock.
    [[nodiscard]] bool clock_is_frozen() const { return clock_->is_frozen(); }
    /// For a controlled clock: steps it. It may be frozen or running.
    void advance(std::chrono::milliseconds step);
    /// For a controlled clock: runs it from now on, ahead of the host's by this offset.
    void set_offset(std::chrono::milliseconds ahead_of_host);

  private:
    void make_cluster();
    void start();
    [[nodiscard]] controlled_clock& clock();
    [[nodiscard]] bool answers() const;
    [[nodiscard]] bool has_ended();

    postgres_server_options options_;
    temporary_folder folder_;
    std::optional<controlled_clock> clock_;
    reserved_port port_;
    pid_t pid_ = -1;
};

}  // namespace syncguard::test
