#include "postgres/server_address.hpp"

#include "util/bounded_wait.hpp"

#include <syncguard/error.hpp>

#include <boost/asio/ip/address.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <new>

#include <libpq-fe.h>

namespace syncguard::postgres {

namespace {

struct freer {
    void operator()(PQconninfoOption* list) const noexcept { PQconninfoFree(list); }
};
using setting_list = std::unique_ptr<PQconninfoOption, freer>;

std::map<std::string, std::string> settings_in(const setting_list& list) {
    std::map<std::string, std::string> found;
    for (const auto* each = list.get(); each != nullptr && each->keyword != nullptr; ++each) {
        if (each->val != nullptr) found.emplace(each->keyword, each->val);
    }
    return found;
}

/// The part of a URL before its options; empty for keyword=value pairs.
std::string_view authority_in(std::string_view connection) {
    for (const std::string_view scheme : {"postgres://", "postgresql://"}) {
        if (!connection.starts_with(scheme)) continue;
        connection.remove_prefix(scheme.size());
        return connection.substr(0, connection.find('?'));
    }
    return {};
}

/// Otherwise a part of a password would be taken for a host name, looked up by DNS and shown in
/// messages.
void refuse_unescaped_secrets(std::string_view connection) {
    const auto authority = authority_in(connection);
    const auto at = authority.find('@');
    if (at == std::string_view::npos) return;
    if (authority.find('@', at + 1) != std::string_view::npos || authority.find('/') < at) {
        throw lock_error(error_code::invalid_argument,
                         "in a URL of PostgreSQL an '@' in a user name, password or database is "
                         "written '%40', and a '/' in a user name or password '%2F'");
    }
}

std::map<std::string, std::string> parse(const std::string& connection) {
    if (connection.find('\0') != std::string::npos) {
        throw lock_error(error_code::invalid_argument,
                         "the connection string for PostgreSQL holds a NUL byte");
    }
    refuse_unescaped_secrets(connection);
    char* problem = nullptr;
    const setting_list list(PQconninfoParse(connection.c_str(), &problem));
    // The text of `problem` is not repeated, because it may quote a part of a password.
    if (problem != nullptr) PQfreemem(problem);
    if (!list) {
        throw lock_error(error_code::invalid_argument,
                         "libpq cannot read the connection string for PostgreSQL; write "
                         "postgres://user:password@host:port/database with special characters as "
                         "%XX and libpq's own options, or keyword=value pairs");
    }
    return settings_in(list);
}

/// The values that libpq would use for a connection with these settings, including those of the
/// service file, which no other function of libpq reads for a service that the settings name.
/// Nothing is sent: libpq reads all values and then refuses the one that does not exist.
std::map<std::string, std::string> values_by_service(std::map<std::string, std::string> settings) {
    constexpr const char* refused = "channel_binding";
    constexpr const char* no_value = "not a value";
    settings[refused] = no_value;
    std::vector<const char*> keywords;
    std::vector<const char*> values;
    for (const auto& [keyword, value] : settings) {
        keywords.push_back(keyword.c_str());
        values.push_back(value.c_str());
    }
    keywords.push_back(nullptr);
    values.push_back(nullptr);
    struct finisher {
        void operator()(PGconn* session) const noexcept { PQfinish(session); }
    };
    const std::unique_ptr<PGconn, finisher> session(
        PQconnectStartParams(keywords.data(), values.data(), 0));
    if (!session) throw std::bad_alloc();
    const setting_list list(PQconninfo(session.get()));
    if (!list) throw std::bad_alloc();
    auto found = settings_in(list);
    if (const auto value = found.extract(refused); !value || value.mapped() != no_value) {
        std::string problem = PQerrorMessage(session.get());
        problem.erase(std::min(problem.find('\n'), problem.size()));
        throw lock_error(
            error_code::invalid_argument,
            "libpq cannot read the service of the connection for PostgreSQL: " + problem);
    }
    return found;
}

/// Removes and returns a setting; if it is missing, the value from the environment or the service
/// file.
std::string take(std::map<std::string, std::string>& said,
                 const std::map<std::string, std::string>& defaults, const char* name) {
    if (const auto own = said.extract(name)) return own.mapped();
    const auto found = defaults.find(name);
    return found == defaults.end() ? std::string() : found->second;
}

std::vector<std::string> split(const std::string& list) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= list.size();) {
        const auto end = std::min(list.find(',', begin), list.size());
        parts.push_back(list.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

std::string part(const std::vector<std::string>& parts, std::size_t number) {
    if (number < parts.size()) return parts[number];
    return parts.size() == 1 ? parts.front() : std::string();
}

std::string describe(const std::vector<host_candidate>& candidates) {
    std::string text;
    for (const auto& each : candidates) {
        std::string authority = each.host.empty() ? each.address : each.host;
        if (authority.empty()) authority = "this host";
        if (!each.port.empty()) authority += ":" + each.port;
        text += (text.empty() ? "" : ", ") + authority;
    }
    return "PostgreSQL at " + text;
}

}  // namespace

bool host_candidate::needs_lookup() const {
    if (host.empty() || !address.empty() || host.front() == '/' || host.front() == '@') {
        return false;
    }
    boost::system::error_code not_an_address;
    boost::asio::ip::make_address(host, not_an_address);
    return static_cast<bool>(not_an_address);
}

server_address::server_address(const options& opts)
    : settings(parse(opts.connection)), connect_timeout(opts.connect_timeout) {
    const bool by_service = settings.contains("service") || std::getenv("PGSERVICE") != nullptr;
    const auto defaults =
        by_service ? values_by_service(settings) : settings_in(setting_list(PQconndefaults()));
    const auto hosts = split(take(settings, defaults, "host"));
    const auto addresses = split(take(settings, defaults, "hostaddr"));
    const auto ports = split(take(settings, defaults, "port"));
    if ((addresses.size() > 1 && hosts.size() > 1 && addresses.size() != hosts.size()) ||
        (ports.size() > 1 && ports.size() != std::max(hosts.size(), addresses.size()))) {
        throw lock_error(error_code::invalid_argument,
                         "the connection string for PostgreSQL names different numbers of hosts, "
                         "addresses and ports");
    }
    for (std::size_t i = 0; i < std::max(hosts.size(), addresses.size()); ++i) {
        candidates.push_back({.host = i < hosts.size() ? hosts[i] : std::string(),
                              .address = i < addresses.size() ? addresses[i] : std::string(),
                              .port = part(ports, i)});
    }
    server_name = describe(candidates);

    if (const auto seconds = settings.extract("connect_timeout")) {
        const std::string& text = seconds.mapped();
        int value = 0;
        const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (problem != std::errc{} || end != text.data() + text.size()) {
            throw lock_error(error_code::invalid_argument,
                             "connect_timeout for PostgreSQL is a number of seconds");
        }
        // To libpq, zero or less means no limit: then our default applies.
        if (value > 0) connect_timeout = std::chrono::seconds(value);
    }
    connect_timeout = bounded_wait(connect_timeout);
    // Keys are UTF-8, whatever the environment says.
    settings["client_encoding"] = "UTF8";
    settings.try_emplace("fallback_application_name", "syncguard");
    // A standby that lags behind still shows released locks, and does not show the newest ones.
    // libpq does not tell its own default from the same value in a service file.
    const auto attributes = defaults.find("target_session_attrs");
    const bool may_be_chosen = std::getenv("PGTARGETSESSIONATTRS") != nullptr ||
                               (attributes != defaults.end() && attributes->second != "any");
    if (!may_be_chosen) {
        settings.try_emplace("target_session_attrs", "read-write");
    }
}

}  // namespace syncguard::postgres
