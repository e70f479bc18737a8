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

[[noreturn]] void refuse(const std::string& why) {
    throw lock_error(error_code::invalid_argument, why);
}

std::string emulator_in_use(const options& store) {
    if (!store.emulator_host.empty() || !store.endpoint.empty()) return store.emulator_host;
    const char* const named = std::getenv("FIRESTORE_EMULATOR_HOST");
    return named == nullptr ? std::string() : std::string(named);
}

}  // namespace

net::http_origin find_origin(const options& store) {
    if (const auto emulator = emulator_in_use(store); !emulator.empty()) {
        const auto origin = net::parse_host_and_port(emulator);
        if (!origin) refuse("the host of a Firestore emulator is written host:port");
        return *origin;
    }
    const auto place =
        net::parse_http_url(store.endpoint.empty() ? google : std::string_view(store.endpoint));
    if (!place || place->target != "/") {
        refuse("the endpoint of Firestore is written https://host or https://host:port");
    }
    if (!place->origin.tls && !place->origin.is_loopback()) {
        refuse("without TLS, Firestore's endpoint can only be on this host itself");
    }
    return place->origin;
}

access find_access(const options& store) {
    auto origin = find_origin(store);
    const bool is_emulator = !emulator_in_use(store).empty();
    const std::string where = (is_emulator ? "the Firestore emulator at " : "Firestore at ") +
                              origin.authority() + " (project " + store.project + ")";
    return {.origin = std::move(origin),
            .whose = is_emulator ? credentials(emulator_owner{}) : find_credentials(store),
            .where = where};
}

service::service(asio::io_context& context, const access& how, const options& store,
                 net::lazy_tls_context& tls, net::socket_registry& sockets)
    : clock_(store.clock),
      root_("/v1/" + document_names(store).root() + ":"),
      is_emulator_(std::holds_alternative<emulator_owner>(how.whose)),
      server_(context,
              {.origin = how.origin,
               .server_name = how.where,
               .most_connections = store.most_connections,
               .connect_timeout = store.connect_timeout},
              how.origin.tls ? &tls : nullptr, sockets),
      tokens_(context, how.whose, tls, sockets) {}

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
        // Without Firestore's own word, something between may have answered for it.
        if (!repeatable && decode_error_status(answer.body) != "UNAUTHENTICATED") co_return answer;
        // The token may have been withdrawn before its time. The server did nothing with the
        // request.
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
