/// The server's address, parsed from a connection string of libpq.
#pragma once

#include <syncguard/postgres.hpp>

#include <map>
#include <string>
#include <vector>

namespace syncguard::postgres {

/// One host to try. For empty parts libpq uses its defaults.
struct host_candidate {
    std::string host;
    std::string address;  ///< The numeric address, if known.
    std::string port;

    /// Whether `host` has to be looked up. False for a folder with a socket.
    [[nodiscard]] bool needs_lookup() const;
};

struct server_address {
    /// Throws `lock_error` (invalid_argument) if `opts.connection` cannot be read.
    explicit server_address(const options& opts);

    std::vector<host_candidate> candidates;
    /// All other settings, by libpq's keywords.
    std::map<std::string, std::string> settings;
    milliseconds connect_timeout;
    std::string server_name;  ///< The name of the server in messages.
};

}  // namespace syncguard::postgres
