#include "http/message.hpp"

#include <boost/asio/ip/address.hpp>

#include <algorithm>
#include <array>
#include <charconv>

namespace syncguard::net {

namespace {

template <class Number>
std::optional<Number> number_in(std::string_view text) {
    Number value{};
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

/// Accepts the characters of host names and addresses, and none that could begin another header.
bool is_host(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '-' || c == '_' || c == ':';
    });
}

/// Refuses characters that would end the request line or a part of it.
bool is_target(std::string_view text) {
    return std::none_of(text.begin(), text.end(),
                        [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7f'; });
}

/// The port stays unchanged if the text contains none.
bool read_authority(std::string_view text, http_origin& read, bool needs_port) {
    std::string_view port;
    if (text.starts_with('[')) {
        const auto end = text.find(']');
        if (end == std::string_view::npos) return false;
        read.host = text.substr(1, end - 1);
        port = text.substr(end + 1);
    } else {
        const auto colon = std::min(text.find(':'), text.size());
        read.host = text.substr(0, colon);
        port = text.substr(colon);
    }
    if (!is_host(read.host)) return false;
    if (port.empty()) return !needs_port;
    if (port.front() != ':') return false;
    const auto number = number_in<std::uint16_t>(port.substr(1));
    if (!number || *number == 0) return false;
    read.port = *number;
    return true;
}

}  // namespace

std::string http_origin::authority() const {
    const bool is_ipv6 = host.find(':') != std::string::npos;
    return (is_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

bool http_origin::is_loopback() const {
    boost::system::error_code not_an_address;
    const auto address = boost::asio::ip::make_address(host, not_an_address);
    return not_an_address ? host == "localhost" : address.is_loopback();
}

std::optional<http_location> parse_http_url(std::string_view url) {
    http_location read;
    if (url.starts_with("https://")) {
        url.remove_prefix(8);
    } else if (url.starts_with("http://")) {
        url.remove_prefix(7);
        read.origin.tls = false;
        read.origin.port = 80;
    } else {
        return std::nullopt;
    }
    const auto slash = std::min(url.find('/'), url.size());
    if (!read_authority(url.substr(0, slash), read.origin, false)) return std::nullopt;
    if (!is_target(url.substr(slash))) return std::nullopt;
    read.target = slash == url.size() ? "/" : std::string(url.substr(slash));
    return read;
}

std::optional<http_origin> parse_host_and_port(std::string_view text) {
    http_origin read{.tls = false};
    if (!read_authority(text, read, true)) return std::nullopt;
    return read;
}

std::optional<std::chrono::sys_seconds> parse_http_date(std::string_view text) {
    using namespace std::chrono;
    // "Sun, 06 Nov 1994 08:49:37 GMT"
    constexpr std::array<std::string_view, 12> months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    if (text.size() != 29 || !text.ends_with(" GMT") || text[19] != ':' || text[22] != ':') {
        return std::nullopt;
    }
    const auto* const month_at = std::find(months.begin(), months.end(), text.substr(8, 3));
    const auto day_number = number_in<unsigned>(text.substr(5, 2));
    const auto year_number = number_in<int>(text.substr(12, 4));
    const auto hour = number_in<unsigned>(text.substr(17, 2));
    const auto minute = number_in<unsigned>(text.substr(20, 2));
    const auto second = number_in<unsigned>(text.substr(23, 2));
    if (month_at == months.end() || !day_number || !year_number || !hour || !minute || !second) {
        return std::nullopt;
    }
    const year_month_day date{year(*year_number),
                              month(static_cast<unsigned>(month_at - months.begin()) + 1),
                              day(*day_number)};
    // 60 is a leap second.
    if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
    return sys_days(date) + hours(*hour) + minutes(*minute) + seconds(*second);
}

}  // namespace syncguard::net
