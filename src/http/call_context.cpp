#include "http/call_context.hpp"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace syncguard::net {

void call_context::set_deadline(time_point when, lock_error error) {
    deadline_.expires_at(when);
    deadline_.async_wait([weak = weak_from_this(), error = std::move(error)](const auto& stopped) {
        const auto self = weak.lock();
        if (!stopped && self) self->cancel(error);
    });
}

void call_context::cancel(const lock_error& error) {
    if (error_) return;
    error_ = error;
    deadline_.cancel();
    on_cancel_();
}

boost::asio::awaitable<void> call_context::sleep(std::chrono::steady_clock::duration length) {
    check();
    sleep_timer_.expires_after(length);
    std::function<void()> stop = [this] { sleep_timer_.cancel(); };
    const cancel_handler waiting(*this, std::move(stop));
    boost::system::error_code cut_short;
    auto token = boost::asio::redirect_error(boost::asio::use_awaitable, cut_short);
    co_await sleep_timer_.async_wait(token);
    check();
}

}  // namespace syncguard::net
