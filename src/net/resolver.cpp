#include "net/resolver.hpp"

#include "util/library_thread.hpp"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <functional>
#include <memory>
#include <utility>

namespace syncguard::net {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

/// A name lookup cannot be stopped. If its caller leaves, the lookup continues until it ends by
/// itself.
struct lookup {
    explicit lookup(asio::io_context& context) : resolver(context), done(context) {}

    tcp::resolver resolver;
    asio::steady_timer done;
    bool has_ended = false;
    boost::system::error_code problem;
    std::vector<tcp::endpoint> found;
};

}  // namespace

asio::awaitable<std::vector<tcp::endpoint>> resolve_host(
    asio::io_context& context, const http_origin& origin, const std::string& server_name,
    std::chrono::steady_clock::time_point until, call_context& ctx) {
    ctx.check();
    std::vector<tcp::endpoint> found;
    boost::system::error_code not_an_address;
    const auto address = asio::ip::make_address(origin.host, not_an_address);
    if (!not_an_address) {
        found.emplace_back(address, origin.port);
        co_return found;
    }
    // Looked up for each connection, because the name may refer to another server later.
    const auto search = std::make_shared<lookup>(context);
    const auto take_results = [search](const boost::system::error_code& problem,
                                       const tcp::resolver::results_type& results) {
        search->has_ended = true;
        search->problem = problem;
        for (const auto& each : results)
            search->found.push_back(each.endpoint());
        search->done.cancel();
    };
    {
        // The first lookup of a context starts a thread of Asio, which inherits the blocked
        // signals and the name.
        const signals_blocked inherited;
        const inherited_thread_name name("syncguard-dns");
        search->resolver.async_resolve(origin.host, std::to_string(origin.port), take_results);
    }
    std::function<void()> stop = [search] { search->done.cancel(); };
    const call_context::cancel_handler waiting(ctx, std::move(stop));
    search->done.expires_at(until);
    boost::system::error_code woken;
    auto token = asio::redirect_error(asio::use_awaitable, woken);
    if (!search->has_ended) co_await search->done.async_wait(token);
    ctx.check();
    if (search->has_ended && search->problem) {
        throw lock_error(error_code::service_unavailable, "cannot find the host of " + server_name +
                                                              ": " + search->problem.message());
    }
    co_return std::move(search->found);
}

}  // namespace syncguard::net
