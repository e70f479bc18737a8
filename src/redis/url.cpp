/// Redis URLs.
#include "core/backend_url.hpp"

#include <syncguard/error.hpp>
#include <syncguard/redis.hpp>

#include <charconv>
#include <limits>
#include <string>

namespace syncguard::redis {

namespace {

[[noreturn]] void refuse(const std::string& message) {
    throw lock_error(error_code::invalid_argument, message);
}

template <class Number>
Number number_in(std::string_view text, const char* name, Number least, Number most) {
    Number value{};
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc{} || end != text.data() + text.size() || value < least ||
        value > most) {
        refuse(std::string("the ") + name + " in a Redis URL is a number from " +
               std::to_string(least) + " to " + std::to_string(most));
    }
    return value;
}

constexpr unsigned greatest_database = std::numeric_limits<std::int32_t>::max();

void read_credentials(std::string_view text, options& read) {
    const auto colon = text.find(':');
    read.username = percent_decoded(text.substr(0, colon));
    if (colon != std::string_view::npos) read.password = percent_decoded(text.substr(colon + 1));
    if (read.username.empty() && read.password.empty()) {
        refuse("the credentials in a Redis URL are written user:password@, user@ or :password@");
    }
}

void read_host_and_port(std::string_view text, options& read) {
    std::string_view port;
    if (text.starts_with('[')) {
        const auto end = text.find(']');
        if (end == std::string_view::npos) refuse("an IPv6 address in a Redis URL lacks its ']'");
        read.host = percent_decoded(text.substr(1, end - 1));
        port = text.substr(end + 1);
        if (!port.empty() && port.front() != ':') {
            refuse("after the ']' of an address in a Redis URL only ':' and a port may follow");
        }
    } else {
        const auto colon = text.find(':');
        read.host = percent_decoded(text.substr(0, colon));
        if (colon != std::string_view::npos) port = text.substr(colon);
    }
    if (read.host.empty()) {
        refuse("a Redis URL names a host, such as redis://localhost or redis://localhost:6379/0");
    }
    if (!port.empty()) {
        read.port = number_in<std::uint16_t>(port.substr(1), "port", 1, 65'535);
    }
}

void read_address(const backend_url& url, options& read) {
    std::string_view body = url.body();
    if (!body.starts_with("//")) {
        refuse("a Redis URL begins with redis://, rediss:// or redis+unix://");
    }
    body.remove_prefix(2);
    const auto slash = std::min(body.find('/'), body.size());
    std::string_view authority = body.substr(0, slash);
    const std::string_view path = body.substr(slash);
    // The last '@': the password may contain an '@' that is not encoded, and otherwise a part of it
    // would be taken for the host name.
    if (const auto at = authority.rfind('@'); at != std::string_view::npos) {
        read_credentials(authority.substr(0, at), read);
        authority.remove_prefix(at + 1);
    }
    if (url.scheme() == "redis+unix") {
        if (!authority.empty() || path.size() < 2) {
            refuse("the path of a socket is written redis+unix:///path/to/redis.sock");
        }
        read.unix_socket = percent_decoded(path);
        return;
    }
    read_host_and_port(authority, read);
    if (path.size() > 1) {
        read.database = number_in<unsigned>(path.substr(1), "database", 0, greatest_database);
    }
}

milliseconds timeout_in(std::string_view text, const char* name) {
    constexpr std::int64_t a_day = 86'400'000;
    return milliseconds(number_in<std::int64_t>(text, name, 1, a_day));
}

void read_option(std::string_view name, const std::string& value, options& read) {
    if (name == "prefix") {
        read.prefix = value;
    } else if (name == "client_name") {
        read.client_name = value;
    } else if (name == "database" && !read.unix_socket.empty()) {
        read.database = number_in<unsigned>(value, "database", 0, greatest_database);
    } else if (name == "connect_timeout_ms") {
        read.connect_timeout = timeout_in(value, "connect_timeout_ms");
    } else if (name == "command_timeout_ms") {
        read.command_timeout = timeout_in(value, "command_timeout_ms");
    } else if (name == "cleanup_in_is_locked") {
        if (value != "true" && value != "false") {
            refuse("cleanup_in_is_locked in a Redis URL is true or false");
        }
        read.cleanup_in_is_locked = value == "true";
    } else if (read.tls && name == "ca_file") {
        read.tls->ca_file = value;
    } else if (read.tls && name == "certificate_file") {
        read.tls->certificate_file = value;
    } else if (read.tls && name == "private_key_file") {
        read.tls->private_key_file = value;
    } else {
        const bool for_tls =
            name == "ca_file" || name == "certificate_file" || name == "private_key_file";
        refuse("a Redis URL has no option '" + std::string(name) + "'" +
               (for_tls              ? " without TLS; begin it with rediss://"
                : name == "database" ? "; write the number behind the host, as in redis://host/3"
                                     : ""));
    }
}

}  // namespace

options parse_url(std::string_view url) {
    const backend_url parts(url);
    options read;
    if (parts.scheme() == "rediss") {
        read.tls.emplace();
    } else if (parts.scheme() != "redis" && parts.scheme() != "redis+unix") {
        refuse("a Redis URL begins with redis://, rediss:// or redis+unix://");
    }
    read_address(parts, read);
    for (const auto& [name, value] : parts.options())
        read_option(name, value, read);
    return read;
}

}  // namespace syncguard::redis
