#include "contract/api_form.hpp"

#include <syncguard/async.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <future>
#include <thread>
#include <utility>

namespace syncguard::test {

namespace asio = boost::asio;

namespace {

class blocking_form : public api_form {
  public:
    any_result acquire(const any_backend& locks, std::string_view key, acquire_options options,
                       std::stop_token stop) override {
        return locks.acquire(key, options, std::move(stop));
    }
    release_result release(const any_backend& locks, std::string_view id,
                           std::stop_token stop) override {
        return locks.release(id, {}, std::move(stop));
    }
    extend_result extend(const any_backend& locks, std::string_view id, extend_options options,
                         std::stop_token stop) override {
        return locks.extend(id, options, std::move(stop));
    }
    bool is_locked(const any_backend& locks, std::string_view key, std::stop_token stop) override {
        return locks.is_locked(key, {}, std::move(stop));
    }
    std::optional<any_info> lookup(const any_backend& locks, key_lookup query,
                                   std::stop_token stop) override {
        return locks.lookup(query, {}, std::move(stop));
    }
    std::optional<any_info> lookup(const any_backend& locks, ownership_lookup query,
                                   std::stop_token stop) override {
        return locks.lookup(query, {}, std::move(stop));
    }
    release_result release(any_lease& held) override { return held.release(); }
    extend_result extend(any_lease& held, extend_options options) override {
        return held.extend(options);
    }
};

/// An I/O thread. Turns stop requests into Asio cancellation.
class io_thread {
  public:
    io_thread() : work_(context_.get_executor()), thread_([this] { context_.run(); }) {}
    io_thread(const io_thread&) = delete;
    io_thread& operator=(const io_thread&) = delete;
    ~io_thread() {
        work_.reset();
        thread_.join();
    }

    /// Calls `start(token)` on the I/O thread, where `token` is `use_future` with a cancellation
    /// slot, and waits for the result.
    template <class Result, class Start>
    Result call(const std::stop_token& stop, Start start) {
        asio::cancellation_signal cancel;
        std::promise<std::future<Result>> started;
        asio::post(context_, [&] {
            started.set_value(start(asio::bind_cancellation_slot(cancel.slot(), asio::use_future)));
            if (stop.stop_requested()) cancel.emit(asio::cancellation_type::terminal);
        });
        auto result = started.get_future().get();
        const std::stop_callback forward(stop, [&] {
            asio::post(context_, [&] { cancel.emit(asio::cancellation_type::terminal); });
        });
        result.wait();
        // The emission above may still be queued, and refers to `cancel`.
        std::promise<void> drained;
        asio::post(context_, [&] { drained.set_value(); });
        drained.get_future().get();
        return result.get();
    }

    [[nodiscard]] asio::io_context& context() noexcept { return context_; }

  private:
    asio::io_context context_;
    asio::executor_work_guard<asio::io_context::executor_type> work_;
    std::thread thread_;
};

class future_form : public api_form {
  public:
    any_result acquire(const any_backend& locks, std::string_view key, acquire_options options,
                       std::stop_token stop) override {
        return io_.call<any_result>(
            stop, [&](auto token) { return async_acquire(locks, key, options, token); });
    }
    release_result release(const any_backend& locks, std::string_view id,
                           std::stop_token stop) override {
        return io_.call<release_result>(
            stop, [&](auto token) { return async_release(locks, id, {}, token); });
    }
    extend_result extend(const any_backend& locks, std::string_view id, extend_options options,
                         std::stop_token stop) override {
        return io_.call<extend_result>(
            stop, [&](auto token) { return async_extend(locks, id, options, token); });
    }
    bool is_locked(const any_backend& locks, std::string_view key, std::stop_token stop) override {
        return io_.call<bool>(stop,
                              [&](auto token) { return async_is_locked(locks, key, {}, token); });
    }
    std::optional<any_info> lookup(const any_backend& locks, key_lookup query,
                                   std::stop_token stop) override {
        return look(locks, query, stop);
    }
    std::optional<any_info> lookup(const any_backend& locks, ownership_lookup query,
                                   std::stop_token stop) override {
        return look(locks, query, stop);
    }
    release_result release(any_lease& held) override {
        return io_.call<release_result>({},
                                        [&](auto token) { return async_release(held, {}, token); });
    }
    extend_result extend(any_lease& held, extend_options options) override {
        return io_.call<extend_result>(
            {}, [&](auto token) { return async_extend(held, options, token); });
    }

  private:
    template <class Query>
    std::optional<any_info> look(const any_backend& locks, Query query,
                                 const std::stop_token& stop) {
        return io_.call<std::optional<any_info>>(
            stop, [&](auto token) { return async_lookup(locks, query, {}, token); });
    }

    io_thread io_;
};

/// Each operation is awaited inside a coroutine.
class coroutine_form : public api_form {
  public:
    any_result acquire(const any_backend& locks, std::string_view key, acquire_options options,
                       std::stop_token stop) override {
        return await<any_result>(stop, [=, &locks]() -> asio::awaitable<any_result> {
            co_return co_await async_acquire(locks, key, options, asio::use_awaitable);
        });
    }
    release_result release(const any_backend& locks, std::string_view id,
                           std::stop_token stop) override {
        return await<release_result>(stop, [=, &locks]() -> asio::awaitable<release_result> {
            co_return co_await async_release(locks, id, {}, asio::use_awaitable);
        });
    }
    extend_result extend(const any_backend& locks, std::string_view id, extend_options options,
                         std::stop_token stop) override {
        return await<extend_result>(stop, [=, &locks]() -> asio::awaitable<extend_result> {
            co_return co_await async_extend(locks, id, options, asio::use_awaitable);
        });
    }
    bool is_locked(const any_backend& locks, std::string_view key, std::stop_token stop) override {
        return await<bool>(stop, [=, &locks]() -> asio::awaitable<bool> {
            co_return co_await async_is_locked(locks, key, {}, asio::use_awaitable);
        });
    }
    std::optional<any_info> lookup(const any_backend& locks, key_lookup query,
                                   std::stop_token stop) override {
        return look(locks, query, stop);
    }
    std::optional<any_info> lookup(const any_backend& locks, ownership_lookup query,
                                   std::stop_token stop) override {
        return look(locks, query, stop);
    }
    release_result release(any_lease& held) override {
        return await<release_result>({}, [&held]() -> asio::awaitable<release_result> {
            co_return co_await async_release(held, {}, asio::use_awaitable);
        });
    }
    extend_result extend(any_lease& held, extend_options options) override {
        return await<extend_result>({}, [&held, options]() -> asio::awaitable<extend_result> {
            co_return co_await async_extend(held, options, asio::use_awaitable);
        });
    }

  private:
    template <class Result, class Coroutine>
    Result await(const std::stop_token& stop, Coroutine coroutine) {
        return io_.call<Result>(stop, [&](auto token) {
            return asio::co_spawn(io_.context(), std::move(coroutine), token);
        });
    }

    template <class Query>
    std::optional<any_info> look(const any_backend& locks, Query query,
                                 const std::stop_token& stop) {
        return await<std::optional<any_info>>(
            stop, [=, &locks]() -> asio::awaitable<std::optional<any_info>> {
                co_return co_await async_lookup(locks, query, {}, asio::use_awaitable);
            });
    }

    io_thread io_;
};

}  // namespace

std::vector<api_form_kind> all_api_forms() {
    return {
        {"blocking", [] { return std::make_unique<blocking_form>(); }},
        {"future", [] { return std::make_unique<future_form>(); }},
        {"coroutine", [] { return std::make_unique<coroutine_form>(); }},
    };
}

}  // namespace syncguard::test
