#include "firestore/service.hpp"

#include "firestore/document_names.hpp"
#include "firestore/documents.hpp"

#include <syncguard/error.hpp>

#include <cstdlib>
#include <utility>

namespace syncguard::firestore {

namespace asio = boost::asio;

namespace {

constexpr std::string_view google = "https://firestore.googleapis.com";

[[noreturn]] void refuse(const std::string& message) {
    throw lock_error(error_code::invalid_argument, message);
}

std::string emulator_in_use(const options& opts) {
    if (!opts.emulator_host.empty() || !opts.endpoint.empty()) return opts.emulator_host;
    const char* const named = std::getenv("FIRESTORE_EMULATOR_HOST");
    return named == nullptr ? std::string() : std::string(named);
}

}  // namespace

net::http_origin find_origin(const options& opts) {
    if (const auto emulator = emulator_in_use(opts); !emulator.empty()) {
        const auto origin = net::parse_host_and_port(emulator);
        if (!origin) refuse("the host of a Firestore emulator is written host:port");
        return *origin;
    }
    const auto location =
        net::parse_http_url(opts.endpoint.empty() ? google : std::string_view(opts.endpoint));
    if (!location || location->target != "/") {
        refuse("the endpoint of Firestore is written https://host or https://host:port");
    }
    if (!location->origin.tls && !location->origin.is_loopback()) {
        refuse("without TLS, Firestore's endpoint can only be on this host itself");
    }
    return location->origin;
}

service_config find_service_config(const options& opts) {
    auto origin = find_origin(opts);
    const bool is_emulator = !emulator_in_use(opts).empty();
    const std::string server_name = (is_emulator ? "the Firestore emulator at " : "Firestore at ") +
                                    origin.authority() + " (project " + opts.project + ")";
    return {.origin = std::move(origin),
            .credentials = is_emulator ? credentials(emulator_owner{}) : find_credentials(opts),
            .server_name = server_name};
}

service::service(asio::io_context& context, const service_config& config, const options& opts,
                 net::lazy_tls_context& tls, net::socket_registry& sockets)
    : clock_(opts.clock),
      root_("/v1/" + document_names(opts).root() + ":"),
      is_emulator_(std::holds_alternative<emulator_owner>(config.credentials)),
      server_(context,
              {.origin = config.origin,
               .server_name = config.server_name,
               .most_connections = opts.most_connections,
               .connect_timeout = opts.connect_timeout},
              config.origin.tls ? &tls : nullptr, sockets),
      tokens_(context, config.credentials, tls, sockets) {}

asio::awaitable<net::http_response> service::call(std::string_view method, std::string body,
                                                  bool repeatable, net::call_context& ctx) {
    net::http_request request;
    request.target = root_ + std::string(method);
    request.body = std::move(body);
    request.repeatable = repeatable;
    for (bool is_first = true;; is_first = false) {
        const std::string token = co_await tokens_.get(ctx);
        request.headers = {{"Content-Type", "application/json"},
                           {"Authorization", "Bearer " + token}};
        auto answer = co_await send(request, ctx);
        constexpr unsigned unauthorised = 401;
        if (answer.status != unauthorised) co_return answer;
        // If the answer does not contain this status, it may come from a proxy.
        if (!repeatable && decode_error_status(answer.body) != "UNAUTHENTICATED") co_return answer;
        // The token may have been revoked early. The server did not execute the request.
        tokens_.reject(token);
        if (!is_first) co_return answer;
    }
}

asio::awaitable<bool> service::ask_for_time(net::call_context& ctx) {
    net::http_request request;
    request.method = net::http_request::verb::get;
    request.target.push_back('/');
    request.repeatable = true;
    const auto answer = co_await send(request, ctx);
    co_return answer.date.has_value();
}

asio::awaitable<net::http_response> service::send(const net::http_request& request,
                                                  net::call_context& ctx) {
    const unix_time sent = clock_();
    auto answer = co_await server_.request(request, ctx);
    if (answer.date) clocks_.add(*answer.date, sent, clock_());
    co_return answer;
}

}  // namespace syncguard::firestore
