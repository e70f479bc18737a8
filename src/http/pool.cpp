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

/// Servers, and the routers before them, forget connections that are silent for minutes.
constexpr std::chrono::seconds longest_silence{50};

/// The longest time for which a new connection is delayed. It is less than `reconnect_delay`
/// allows, because the server may be well and only the time of some callers too short.
constexpr milliseconds longest_delay{250};

}  // namespace

/// One of the connections that there may be, for the time of a call.
class http_pool::place {
  public:
    place(http_pool& pool, std::unique_ptr<http_connection> kept, const interruption& limits)
        : connection(std::move(kept)), pool_(pool), limits_(limits) {}
    place(const place&) = delete;
    place& operator=(const place&) = delete;
    ~place() {
        if (connection && limits_.has_happened()) pool_.note_interruption();
        pool_.give_back(std::move(connection));
    }

    std::unique_ptr<http_connection> connection;

  private:
    http_pool& pool_;
    const interruption& limits_;
};

/// A caller that waits for a connection. It is in the queue from its construction to its end.
class http_pool::waiter {
  public:
    waiter(http_pool& pool, line& queue)
        : turn(pool.context_),
          pool_(pool),
          line_(queue),
          in_line_(queue.insert(queue.end(), this)) {}
    waiter(const waiter&) = delete;
    waiter& operator=(const waiter&) = delete;
    ~waiter() {
        if (!has_come_) {
            line_.erase(in_line_);
        } else if (!is_taken_) {
            pool_.give_back(std::move(connection_));
        }
    }

    /// Called when the waiter has been removed from the queue.
    void come(std::unique_ptr<http_connection> connection) {
        has_come_ = true;
        connection_ = std::move(connection);
        turn.cancel();
    }

    /// Call this after `come`. Null: the caller may open a connection.
    [[nodiscard]] std::unique_ptr<http_connection> take() {
        is_taken_ = true;
        return std::move(connection_);
    }

    asio::steady_timer turn;

  private:
    http_pool& pool_;
    line& line_;
    const line::iterator in_line_;
    bool has_come_ = false;
    bool is_taken_ = false;
    std::unique_ptr<http_connection> connection_;
};

http_pool::http_pool(asio::io_context& context, settings how, lazy_tls_context* tls,
                     shown_sockets& shown)
    : context_(context), how_(std::move(how)), tls_(tls), shown_(shown) {
    // Giving one back must not fail.
    idle_.reserve(how_.most_connections);
}

asio::awaitable<http_response> http_pool::call(const http_request& what, interruption& limits) {
    auto kept = co_await take(limits);
    // A call that pauses must keep no place from calls that have priority.
    while (!kept && must_pause(limits)) {
        give_back(nullptr);
        co_await limits.pause(open_not_before_ - steady_clock::now());
        kept = co_await take(limits);
    }
    place mine(*this, std::move(kept), limits);
    while (true) {
        const bool is_fresh = mine.connection == nullptr;
        if (is_fresh) {
            mine.connection =
                std::make_unique<http_connection>(context_, how_.origin, how_.where,
                                                  tls_ == nullptr ? nullptr : &tls_->get(), shown_);
            co_await mine.connection->open(limits, steady_clock::now() + how_.connect_timeout);
        }
        try {
            auto answer = co_await mine.connection->exchange(what, limits);
            interruptions_ = 0;
            co_return answer;
        } catch (const exchange_broken&) {
            const bool was_closed_unseen = !is_fresh && !mine.connection->heard_something();
            if (!was_closed_unseen || !what.repeatable || limits.has_happened()) throw;
        }
        mine.connection.reset();
    }
}

/// Null means that the caller may make a connection.
asio::awaitable<std::unique_ptr<http_connection>> http_pool::take(interruption& limits) {
    limits.check();
    if (priority_.empty() && waiting_.empty()) {
        if (auto kept = take_idle()) co_return kept;
        if (places_taken_ < how_.most_connections) {
            ++places_taken_;
            co_return nullptr;
        }
    }
    waiter mine(*this, limits.has_priority() ? priority_ : waiting_);
    std::function<void()> stop = [&mine] { mine.turn.cancel(); };
    const interruption::scope waiting(limits, std::move(stop));
    mine.turn.expires_at(asio::steady_timer::time_point::max());
    boost::system::error_code woken;
    auto token = asio::redirect_error(asio::use_awaitable, woken);
    co_await mine.turn.async_wait(token);
    limits.check();
    co_return mine.take();
}

std::unique_ptr<http_connection> http_pool::take_idle() {
    while (!idle_.empty()) {
        // The one that was used last is the most likely to be alive.
        auto last = std::move(idle_.back());
        idle_.pop_back();
        if (steady_clock::now() - last.since < longest_silence && last.connection->is_usable()) {
            return std::move(last.connection);
        }
        --places_taken_;
    }
    return nullptr;
}

bool http_pool::must_pause(const interruption& limits) const {
    return !limits.has_priority() && steady_clock::now() < open_not_before_;
}

void http_pool::note_interruption() {
    const auto now = steady_clock::now();
    // Calls that end together count once.
    if (now < open_not_before_) return;
    open_not_before_ = now + std::min(reconnect_delay(++interruptions_), longest_delay);
}

void http_pool::give_back(std::unique_ptr<http_connection> connection) {
    if (connection && !connection->is_usable()) connection.reset();
    line& queue = priority_.empty() ? waiting_ : priority_;
    if (!queue.empty()) {
        waiter& next = *queue.front();
        queue.pop_front();
        next.come(std::move(connection));
    } else if (connection) {
        idle_.push_back({std::move(connection), steady_clock::now()});
    } else {
        --places_taken_;
    }
}

}  // namespace syncguard::net
