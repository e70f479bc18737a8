#include "http/call_context.hpp"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace syncguard::net {

void interruption::happen_at(time_point when, lock_error why) {
    deadline_.expires_at(when);
    deadline_.async_wait([weak = weak_from_this(), why = std::move(why)](const auto& stopped) {
        const auto self = weak.lock();
        if (!stopped && self) self->happen(why);
    });
}

void interruption::happen(const lock_error& why) {
    if (why_) return;
    why_ = why;
    deadline_.cancel();
    stop_();
}

boost::asio::awaitable<void> interruption::pause(std::chrono::steady_clock::duration length) {
    check();
    nap_.expires_after(length);
    std::function<void()> stop = [this] { nap_.cancel(); };
    const scope waiting(*this, std::move(stop));
    boost::system::error_code cut_short;
    auto token = boost::asio::redirect_error(boost::asio::use_awaitable, cut_short);
    co_await nap_.async_wait(token);
    check();
}

}  // namespace syncguard::net
