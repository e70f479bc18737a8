/// A real PostgreSQL server for one test: started, stopped, paused and asked by the test alone.
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
    /// Settings such as "max_connections=5". They override those that every server gets.
    std::vector<std::string> settings = {};
    /// Lines for pg_hba.conf, before the one that lets the superuser in by the socket alone. Empty:
    /// everybody may come in by TCP, too.
    std::string host_rules = {};
    /// Whether the server's time is the test's to decide. It then begins frozen at the host's time.
    bool controlled_clock = false;
    /// Whether a commit is on the disk before it is acknowledged.
    bool durable = false;
    /// Whether the tables are made from the start, by the words of docs/storage.md.
    bool with_tables = true;
    /// For TLS, beside connections without it.
    std::optional<certificate_files> certificate = {};
    /// Whose standby it is, which follows it and only reads. No tables are made there.
    const postgres_server* primary = nullptr;
};

/// Runs from construction to destruction, in a folder of its own, on a port of its own; as the user
/// `postgres` where the test is run by root. It ends with the thread that started it, even if the
/// test crashes.
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
    /// The folder of the socket, for libpq's `host`.
    [[nodiscard]] std::filesystem::path socket_folder() const { return folder_.path(); }
    [[nodiscard]] std::filesystem::path data_folder() const { return folder_ / "data"; }
    [[nodiscard]] std::string log() const;

    /// Ends all its processes as a crash of the machine would.
    void kill();
    /// As an administrator does: connections are ended, what was committed is kept.
    void shut_down();
    /// Starts it again, after a `kill` if it is running.
    void restart();

    /// Of a standby: it leaves its primary and writes from now on.
    void promote();

    /// Connects by the socket, as superuser.
    [[nodiscard]] postgres_connection connect() const;
    /// Runs statements on a connection of its own.
    postgres_rows run(const std::string& sql,
                      const std::vector<std::string>& parameters = {}) const;
    std::string value(const std::string& sql,
                      const std::vector<std::string>& parameters = {}) const;

    /// The time by the server's own clock.
    [[nodiscard]] std::chrono::sys_time<std::chrono::milliseconds> now() const;
    /// For a controlled clock: whether it still stands, for all who share the server.
    [[nodiscard]] bool clock_is_frozen() const { return clock_->is_frozen(); }
    /// For a controlled clock: steps it, whether it stands or runs.
    void advance(std::chrono::milliseconds step);
    /// For a controlled clock: lets it run from now on, that much ahead of the host's.
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
