/// Where the server is, read from what libpq understands.
#pragma once

#include <syncguard/postgres.hpp>

#include <map>
#include <string>
#include <vector>

namespace syncguard::postgres {

/// One place to try. Empty parts are libpq's own defaults.
struct candidate {
    std::string host;
    std::string address;  ///< A numeric one, if it is known.
    std::string port;

    /// Whether `host` has to be looked up. Not so a folder with a socket.
    [[nodiscard]] bool needs_lookup() const;
};

struct target {
    /// Throws `lock_error` (invalid_argument) if `store.connection` cannot be read.
    explicit target(const options& store);

    std::vector<candidate> candidates;
    /// All that is said beside the places, by libpq's keywords.
    std::map<std::string, std::string> settings;
    milliseconds connect_timeout;
    std::string where;  ///< How messages name the server.
};

}  // namespace syncguard::postgres
