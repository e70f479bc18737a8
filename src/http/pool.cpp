#include "http/pool.hpp"

#include "net/reconnect_backoff.hpp"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <utility>

namespace syncguard::net {

namespace asio = boost::asio;
using std::chrono::steady_clock;

namespace {

/// Servers, and routers in front of them, drop connections that are idle for minutes.
constexpr std::chrono::seconds max_idle{50};

/// The longest time for which a new connection is delayed. It is less than `reconnect_delay`
/// allows, because the server may be healthy and only the timeouts of some callers too short.
constexpr milliseconds max_connect_delay{250};

}  // namespace

/// Scope guard: the right to use one connection of the pool, for the duration of a request.
class http_pool::checkout {
  public:
    checkout(http_pool& pool, std::unique_ptr<http_connection> kept, const call_context& ctx)
        : connection(std::move(kept)), pool_(pool), ctx_(ctx) {}
    checkout(const checkout&) = delete;
    checkout& operator=(const checkout&) = delete;
    ~checkout() {
        if (connection && ctx_.is_cancelled()) pool_.note_cancelled_request();
        pool_.give_back(std::move(connection));
    }

    std::unique_ptr<http_connection> connection;

  private:
    http_pool& pool_;
    const call_context& ctx_;
};

/// A caller that waits for a connection. It is in the queue from its construction to its
/// destruction, or until a connection is handed over.
class http_pool::waiter {
  public:
    waiter(http_pool& pool, waiter_queue& queue)
        : ready(pool.context_),
          pool_(pool),
          queue_(queue),
          position_(queue.insert(queue.end(), this)) {}
    waiter(const waiter&) = delete;
    waiter& operator=(const waiter&) = delete;
    ~waiter() {
        if (!is_ready_) {
            queue_.erase(position_);
        } else if (!is_taken_) {
            pool_.give_back(std::move(connection_));
        }
    }

    /// Called when the waiter has been removed from the queue.
    void hand_over(std::unique_ptr<http_connection> connection) {
        is_ready_ = true;
        connection_ = std::move(connection);
        ready.cancel();
    }

    /// Call this after `hand_over`. Null: the caller may open a connection.
    [[nodiscard]] std::unique_ptr<http_connection> take() {
        is_taken_ = true;
        return std::move(connection_);
    }

    asio::steady_timer ready;

  private:
    http_pool& pool_;
    waiter_queue& queue_;
    const waiter_queue::iterator position_;
    bool is_ready_ = false;
    bool is_taken_ = false;
    std::unique_ptr<http_connection> connection_;
};

http_pool::http_pool(asio::io_context& context, settings opts, lazy_tls_context* tls,
                     socket_registry& sockets)
    : context_(context), opts_(std::move(opts)), tls_(tls), sockets_(sockets) {
    // So that `give_back` does not allocate.
    idle_.reserve(opts_.most_connections);
}

asio::awaitable<http_response> http_pool::request(const http_request& req, call_context& ctx) {
    auto kept = co_await take(ctx);
    // During the pause the call gives its connection slot back, so that calls that have priority
    // can use it.
    while (!kept && must_pause(ctx)) {
        give_back(nullptr);
        co_await ctx.sleep(next_connect_at_ - steady_clock::now());
        kept = co_await take(ctx);
    }
    checkout mine(*this, std::move(kept), ctx);
    while (true) {
        const bool is_fresh = mine.connection == nullptr;
        if (is_fresh) {
            mine.connection = std::make_unique<http_connection>(
                context_, opts_.origin, opts_.server_name, tls_ == nullptr ? nullptr : &tls_->get(),
                sockets_);
            co_await mine.connection->open(ctx, steady_clock::now() + opts_.connect_timeout);
        }
        try {
            auto answer = co_await mine.connection->exchange(req, ctx);
            cancelled_requests_ = 0;
            co_return answer;
        } catch (const response_lost&) {
            const bool was_closed_unseen = !is_fresh && !mine.connection->received_any();
            if (!was_closed_unseen || !req.repeatable || ctx.is_cancelled()) throw;
        }
        mine.connection.reset();
    }
}

/// Null: the caller may open a connection.
asio::awaitable<std::unique_ptr<http_connection>> http_pool::take(call_context& ctx) {
    ctx.check();
    if (priority_.empty() && waiting_.empty()) {
        if (auto kept = take_idle()) co_return kept;
        if (connection_count_ < opts_.most_connections) {
            ++connection_count_;
            co_return nullptr;
        }
    }
    waiter mine(*this, ctx.has_priority() ? priority_ : waiting_);
    std::function<void()> stop = [&mine] { mine.ready.cancel(); };
    const call_context::cancel_handler waiting(ctx, std::move(stop));
    mine.ready.expires_at(asio::steady_timer::time_point::max());
    boost::system::error_code woken;
    auto token = asio::redirect_error(asio::use_awaitable, woken);
    co_await mine.ready.async_wait(token);
    ctx.check();
    co_return mine.take();
}

std::unique_ptr<http_connection> http_pool::take_idle() {
    while (!idle_.empty()) {
        // The connection that was used last is the most likely to be open.
        auto last = std::move(idle_.back());
        idle_.pop_back();
        if (steady_clock::now() - last.since < max_idle && last.connection->is_usable()) {
            return std::move(last.connection);
        }
        --connection_count_;
    }
    return nullptr;
}

bool http_pool::must_pause(const call_context& ctx) const {
    return !ctx.has_priority() && steady_clock::now() < next_connect_at_;
}

void http_pool::note_cancelled_request() {
    const auto now = steady_clock::now();
    // Calls that are cancelled at the same time count once.
    if (now < next_connect_at_) return;
    next_connect_at_ = now + std::min(reconnect_delay(++cancelled_requests_), max_connect_delay);
}

void http_pool::give_back(std::unique_ptr<http_connection> connection) {
    if (connection && !connection->is_usable()) connection.reset();
    waiter_queue& queue = priority_.empty() ? waiting_ : priority_;
    if (!queue.empty()) {
        waiter& next = *queue.front();
        queue.pop_front();
        next.hand_over(std::move(connection));
    } else if (connection) {
        idle_.push_back({std::move(connection), steady_clock::now()});
    } else {
        --connection_count_;
    }
}

}  // namespace syncguard::net
