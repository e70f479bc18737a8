/// Deadline and cancellation of one call.
#pragma once

#include <syncguard/error.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace syncguard::net {

/// Cancellation ends the current wait of the call's coroutine at once. A call is cancelled at most
/// once, and stays cancelled.
///
/// Thread safety: none; used by the thread that runs the context.
class call_context : public std::enable_shared_from_this<call_context> {
  public:
    using time_point = std::chrono::steady_clock::time_point;

    /// A call that has priority gets a connection before other waiting calls.
    explicit call_context(boost::asio::io_context& context, bool has_priority = false)
        : has_priority_(has_priority),
          deadline_(context),
          sleep_timer_(context),
          on_cancel_([] {}) {}
    call_context(const call_context&) = delete;
    call_context& operator=(const call_context&) = delete;
    ~call_context() = default;

    /// Cancels the call at `when` with `error`. A later `set_deadline` replaces an earlier one.
    void set_deadline(time_point when, lock_error error);

    /// Cancels the call now, unless it is already cancelled.
    void cancel(const lock_error& error);

    [[nodiscard]] bool has_priority() const noexcept { return has_priority_; }

    [[nodiscard]] bool is_cancelled() const noexcept { return error_.has_value(); }

    /// The error with which the call was cancelled.
    [[nodiscard]] const lock_error& reason() const { return error_.value(); }

    /// Throws the reason if it is cancelled.
    void check() const {
        if (error_) throw lock_error(*error_);
    }

    /// While this object exists, cancellation calls `stop`, which ends the current wait. If several
    /// exist, only the newest is called.
    class cancel_handler {
      public:
        cancel_handler(call_context& ctx, std::function<void()> stop)
            : ctx_(ctx), outer_(std::exchange(ctx.on_cancel_, std::move(stop))) {}
        cancel_handler(const cancel_handler&) = delete;
        cancel_handler& operator=(const cancel_handler&) = delete;
        ~cancel_handler() { ctx_.on_cancel_ = std::move(outer_); }

      private:
        call_context& ctx_;
        std::function<void()> outer_;
    };

    /// Waits for `length`, or until `wake`. Throws the reason if the call is cancelled.
    [[nodiscard]] boost::asio::awaitable<void> sleep(std::chrono::steady_clock::duration length);
    void wake() { sleep_timer_.cancel(); }

  private:
    const bool has_priority_;
    boost::asio::steady_timer deadline_;
    boost::asio::steady_timer sleep_timer_;
    std::function<void()> on_cancel_;
    std::optional<lock_error> error_;
};

}  // namespace syncguard::net
