/// The asynchronous form, in a coroutine.
// [coroutine]
#include <syncguard/async.hpp>
#include <syncguard/connect.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <iostream>

namespace asio = boost::asio;
using namespace std::chrono_literals;

asio::awaitable<void> ship(syncguard::any_backend locks) {
    auto lease =
        co_await syncguard::async_acquire(locks, "order:7", {.ttl = 10s}, asio::use_awaitable);
    if (!lease) co_return;
    std::cout << "shipping under fence " << lease->fence() << "\n";
    co_await syncguard::async_release(*lease, {}, asio::use_awaitable);
}

int main() {
    asio::io_context io;
    asio::co_spawn(io, ship(syncguard::connect("memory:")), asio::detached);
    io.run();
}
// [coroutine]
