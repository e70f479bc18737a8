/// The server's address, read from what libpq understands.
#pragma once

#include <syncguard/postgres.hpp>

#include <map>
#include <string>
#include <vector>

namespace syncguard::postgres {

/// One host to try. Empty parts are libpq's own defaults.
struct host_candidate {
    std::string host;
    std::string address;  ///< A numeric one, if it is known.
    std::string port;

    /// Whether `host` has to be looked up. Not so a folder with a socket.
    [[nodiscard]] bool needs_lookup() const;
};

struct server_address {
    /// Throws `lock_error` (invalid_argument) if `opts.connection` cannot be read.
    explicit server_address(const options& opts);

    std::vector<host_candidate> candidates;
    /// All other settings, by libpq's keywords.
    std::map<std::string, std::string> settings;
    milliseconds connect_timeout;
    std::string server_name;  ///< How messages name the server.
};

}  // namespace syncguard::postgres
