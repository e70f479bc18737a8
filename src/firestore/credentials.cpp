#include "firestore/credentials.hpp"

#include "firestore/signed_assertion.hpp"

#include <syncguard/error.hpp>

#include <boost/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

namespace syncguard::firestore {

namespace json = boost::json;

namespace {

constexpr std::string_view google_token_uri = "https://oauth2.googleapis.com/token";
constexpr std::string_view metadata_path =
    "/computeMetadata/v1/instance/service-accounts/default/token";

/// Google's tokens are valid for an hour. Longer lifetimes are cut off, so that such tokens are
/// renewed earlier.
constexpr std::chrono::seconds longest_lifetime = std::chrono::hours(24);

[[noreturn]] void refuse(const std::string& message) {
    throw lock_error(error_code::invalid_argument, message);
}

std::string variable(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? std::string() : std::string(value);
}

/// The file that `gcloud auth application-default login` writes.
std::filesystem::path well_known_file() {
    constexpr const char* name = "application_default_credentials.json";
    if (const auto folder = variable("CLOUDSDK_CONFIG"); !folder.empty()) {
        return std::filesystem::path(folder) / name;
    }
    const auto home = variable("HOME");
    if (home.empty()) return {};
    return std::filesystem::path(home) / ".config" / "gcloud" / name;
}

credentials read_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    // Opening a folder succeeds; only reading it fails.
    if (!file || !(text << file.rdbuf())) {
        refuse("the credentials file '" + path.string() + "' cannot be read, or is empty");
    }
    return parse_credentials(text.str(), path.string());
}

/// The text of a member; `missing` if there is none.
std::string member(const json::object& object, const char* name, const std::string& file,
                   std::optional<std::string_view> missing = {}) {
    const auto* const found = object.if_contains(name);
    if (found != nullptr && found->is_string() && !found->get_string().empty()) {
        return {found->get_string().data(), found->get_string().size()};
    }
    if (!missing) {
        refuse("the credentials file '" + file + "' lacks '" + std::string(name) + "'");
    }
    return std::string(*missing);
}

std::string checked_token_uri(const json::object& object, const std::string& file) {
    std::string uri = member(object, "token_uri", file, google_token_uri);
    const auto parsed = net::parse_http_url(uri);
    if (!parsed || (!parsed->origin.tls && !parsed->origin.is_loopback())) {
        refuse("the token_uri in the credentials file '" + file +
               "' is not an https:// address: secrets would be sent for everybody to read");
    }
    return uri;
}

std::string form_encoded(std::string_view text) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string encoded;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                              (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
        if (is_plain) {
            encoded.push_back(c);
        } else {
            encoded.append(1, '%').append(1, digits[byte >> 4U]).append(1, digits[byte & 15U]);
        }
    }
    return encoded;
}

net::http_request form(const std::string& token_uri, std::string body) {
    net::http_request request;
    request.target = net::parse_http_url(token_uri).value().target;
    request.headers = {{"Content-Type", "application/x-www-form-urlencoded"}};
    request.body = std::move(body);
    // A second token does no harm.
    request.repeatable = true;
    return request;
}

struct requester {
    std::chrono::sys_seconds now;

    net::http_request operator()(const emulator_owner& /*account*/) const { return {}; }
    net::http_request operator()(const service_account& account) const {
        return form(account.token_uri,
                    "grant_type=" + form_encoded("urn:ietf:params:oauth:grant-type:jwt-bearer") +
                        "&assertion=" + form_encoded(signed_assertion(account, now)));
    }
    net::http_request operator()(const authorised_user& account) const {
        return form(account.token_uri,
                    "grant_type=refresh_token&client_id=" + form_encoded(account.client_id) +
                        "&client_secret=" + form_encoded(account.client_secret) +
                        "&refresh_token=" + form_encoded(account.refresh_token));
    }
    net::http_request operator()(const metadata_server& account) const {
        net::http_request request;
        request.method = net::http_request::verb::get;
        request.target = net::parse_http_url(account.token_uri).value().target;
        request.headers = {{"Metadata-Flavor", "Google"}};
        request.repeatable = true;
        return request;
    }
};

/// The OAuth error code, such as "invalid_grant"; empty if there is none.
std::string oauth_word(std::string_view body) {
    json::error_code problem;
    const auto parsed = json::parse(json::string_view(body.data(), body.size()), problem);
    const auto* const object = problem ? nullptr : parsed.if_object();
    const auto* const word = object == nullptr ? nullptr : object->if_contains("error");
    if (word == nullptr || !word->is_string()) return {};
    const std::string text(word->get_string().data(), word->get_string().size());
    const bool is_word = text.size() < 40 && std::all_of(text.begin(), text.end(), [](char c) {
                             return (c >= 'a' && c <= 'z') || c == '_';
                         });
    return is_word ? text : std::string();
}

[[noreturn]] void refuse_status(const net::http_response& answer, const std::string& server_name) {
    const std::string word = oauth_word(answer.body);
    const std::string said = server_name + " answered " + std::to_string(answer.status) +
                             (word.empty() ? "" : " " + word) + " instead of an access token";
    if (answer.status == 429) throw lock_error(error_code::rate_limited, said);
    if (answer.status >= 500) throw lock_error(error_code::service_unavailable, said);
    throw lock_error(error_code::auth_failed,
                     said + "; are the credentials still valid, and is this host's clock right?");
}

}  // namespace

credentials find_credentials(const options& opts) {
    if (!opts.credentials_file.empty()) return read_file(opts.credentials_file);
    if (const auto named = variable("GOOGLE_APPLICATION_CREDENTIALS"); !named.empty()) {
        return read_file(named);
    }
    std::error_code unreadable;
    if (const auto file = well_known_file();
        !file.empty() && std::filesystem::is_regular_file(file, unreadable)) {
        return read_file(file);
    }
    auto host = variable("GCE_METADATA_HOST");
    if (host.empty()) host = "metadata.google.internal";
    std::string uri = "http://" + host + std::string(metadata_path);
    if (!net::parse_http_url(uri)) refuse("GCE_METADATA_HOST is not a host, nor host:port");
    return metadata_server{.token_uri = std::move(uri)};
}

credentials parse_credentials(std::string_view text, const std::string& name) {
    json::error_code problem;
    const auto parsed = json::parse(json::string_view(text.data(), text.size()), problem);
    const auto* const file = problem ? nullptr : parsed.if_object();
    if (file == nullptr) refuse("the credentials file '" + name + "' is not JSON");
    const std::string type = member(*file, "type", name);
    if (type == "service_account") {
        service_account read{.email = member(*file, "client_email", name),
                             .key_id = member(*file, "private_key_id", name, ""),
                             .private_key = member(*file, "private_key", name),
                             .token_uri = checked_token_uri(*file, name)};
        check_private_key(read, name);
        return read;
    }
    if (type == "authorized_user") {
        return authorised_user{.client_id = member(*file, "client_id", name),
                               .client_secret = member(*file, "client_secret", name),
                               .refresh_token = member(*file, "refresh_token", name),
                               .token_uri = checked_token_uri(*file, name)};
    }
    refuse("the credentials file '" + name +
           "' is of another kind than service_account and authorized_user");
}

net::http_location token_location(const credentials& creds) {
    const auto uri = std::visit(
        [](const auto& account) -> std::string {
            if constexpr (requires { account.token_uri; }) return account.token_uri;
            return std::string(google_token_uri);
        },
        creds);
    return net::parse_http_url(uri).value();
}

net::http_request token_request(const credentials& creds, std::chrono::sys_seconds now) {
    return std::visit(requester{now}, creds);
}

access_token decode_token(const net::http_response& answer, const std::string& server_name) {
    if (answer.status != 200) refuse_status(answer, server_name);
    json::error_code problem;
    const auto parsed =
        json::parse(json::string_view(answer.body.data(), answer.body.size()), problem);
    try {
        const auto& object = parsed.as_object();
        const auto& text = object.at("access_token").as_string();
        const auto lifetime = object.at("expires_in").to_number<std::int64_t>();
        const bool can_be_sent =
            std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
        if (problem || text.empty() || !can_be_sent || lifetime <= 0) throw std::out_of_range("");
        return {.text = {text.data(), text.size()},
                .lifetime = std::min(std::chrono::seconds(lifetime), longest_lifetime)};
    } catch (const std::exception&) {
        throw lock_error(error_code::internal,
                         server_name + " gave an answer that is not an access token");
    }
}

}  // namespace syncguard::firestore
