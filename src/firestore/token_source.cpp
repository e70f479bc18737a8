#include "firestore/token_source.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace syncguard::firestore {

namespace asio = boost::asio;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

/// How long before its expiry a token is renewed, and how long before it is no longer sent; less if
/// its lifetime is shorter.
constexpr std::chrono::seconds renewal_ahead{240};
constexpr std::chrono::seconds margin_at_the_end{10};

constexpr std::chrono::seconds longest_fetch{10};
/// The delay after a renewal that failed, while the token can still be used.
constexpr std::chrono::seconds retry_delay{5};

constexpr std::chrono::milliseconds connect_timeout{3'000};

net::http_pool::settings server_of(const credentials& creds) {
    const auto origin = token_location(creds).origin;
    const bool is_metadata = std::holds_alternative<metadata_server>(creds);
    return {.origin = origin,
            .server_name = (is_metadata ? "the metadata server at " : "the token server at ") +
                           origin.authority(),
            .most_connections = 1,
            .connect_timeout = connect_timeout};
}

}  // namespace

/// Scope guard: the request has ended when this is destroyed, also if the coroutine that owns it is
/// destroyed because memory ran out.
class token_source::fetch_guard {
  public:
    explicit fetch_guard(token_source& owner) : owner_(&owner) {}
    fetch_guard(fetch_guard&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)) {}
    fetch_guard& operator=(fetch_guard&&) = delete;
    ~fetch_guard() {
        if (owner_ == nullptr) return;
        owner_->fetching_.reset();
        owner_->changed_.cancel();
    }

  private:
    token_source* owner_;
};

token_source::token_source(asio::io_context& context, credentials creds, net::lazy_tls_context& tls,
                           net::socket_registry& sockets)
    : context_(context),
      credentials_(std::move(creds)),
      server_(context, server_of(credentials_),
              token_location(credentials_).origin.tls ? &tls : nullptr, sockets),
      changed_(context, asio::steady_timer::time_point::max()) {}

asio::awaitable<std::string> token_source::get(net::call_context& ctx) {
    if (std::holds_alternative<emulator_owner>(credentials_)) co_return "owner";
    const auto now = steady_clock::now();
    if (now >= renew_at_ && !is_fetching()) begin_fetching();
    if (now < usable_until_) co_return token_;

    std::function<void()> stop = [this] { changed_.cancel(); };
    const net::call_context::cancel_handler waiting(ctx, std::move(stop));
    while (is_fetching()) {
        ctx.check();
        boost::system::error_code woken;
        auto token = asio::redirect_error(asio::use_awaitable, woken);
        co_await changed_.async_wait(token);
    }
    ctx.check();
    if (failure_) throw lock_error(*failure_);
    if (token_.empty()) throw std::bad_alloc();
    co_return token_;
}

void token_source::reject(std::string_view token) {
    if (token != token_) return;
    usable_until_ = {};
    renew_at_ = {};
}

void token_source::stop() {
    if (!fetching_) return;
    const lock_error error(error_code::aborted, "the store was closed");
    fetching_->cancel(error);
}

void token_source::begin_fetching() {
    fetching_ = std::make_shared<net::call_context>(context_);
    fetch_guard guard(*this);
    fetching_->set_deadline(
        steady_clock::now() + longest_fetch,
        {error_code::network_timeout, server_.server_name() + " gave no access token in time"});
    asio::co_spawn(context_, fetch(std::move(guard)), asio::detached);
}

asio::awaitable<void> token_source::fetch([[maybe_unused]] fetch_guard guard) {
    const auto ctx = fetching_;
    std::optional<net::http_response> answer;
    try {
        const auto begun = steady_clock::now();
        const auto request = token_request(credentials_, std::chrono::floor<std::chrono::seconds>(
                                                             std::chrono::system_clock::now()));
        answer = co_await server_.request(request, *ctx);
        auto fresh = decode_token(*answer, server_.server_name());
        token_ = std::move(fresh.text);
        renew_at_ = begun + fresh.lifetime - std::min(renewal_ahead, fresh.lifetime / 2);
        usable_until_ = begun + fresh.lifetime - std::min(margin_at_the_end, fresh.lifetime / 4);
        failure_.reset();
    } catch (const net::response_lost& error) {
        failure_ = error;
    } catch (const lock_error& error) {
        constexpr unsigned not_found = 404;
        const bool is_nobody_there = !answer && !ctx->is_cancelled();
        const bool has_no_account = answer && answer->status == not_found;
        failure_ = is_nobody_there || has_no_account ? explained(error) : error;
    } catch (const std::exception& error) {
        failure_.emplace(error_code::internal, error.what(), error_context{},
                         std::current_exception());
    }
    if (failure_) {
        // Without a usable token, the next operation tries again at once.
        const auto now = steady_clock::now();
        renew_at_ = now < usable_until_ ? now + retry_delay : time_point{};
    }
}

lock_error token_source::explained(const lock_error& error) const {
    if (!std::holds_alternative<metadata_server>(credentials_)) return error;
    return {error_code::auth_failed,
            std::string("no Google credentials were found: set GOOGLE_APPLICATION_CREDENTIALS to "
                        "the file of a service account, or run 'gcloud auth application-default "
                        "login' (") +
                error.what() + ")"};
}

}  // namespace syncguard::firestore
