/// The end of a call before its time: its deadline, or a caller who no longer wants it.
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

/// Ends whatever one coroutine waits for, at once. It happens at most once, and then stays.
///
/// Thread safety: none; used by the thread that runs the context.
class interruption : public std::enable_shared_from_this<interruption> {
  public:
    using time_point = std::chrono::steady_clock::time_point;

    /// A call that has priority goes before the others that wait for a connection.
    explicit interruption(boost::asio::io_context& context, bool has_priority = false)
        : has_priority_(has_priority), deadline_(context), nap_(context), stop_([] {}) {}
    interruption(const interruption&) = delete;
    interruption& operator=(const interruption&) = delete;
    ~interruption() = default;

    /// Lets it happen at that time, for that reason. A later call replaces the former.
    void happen_at(time_point when, lock_error why);

    /// Lets it happen now, unless it has happened.
    void happen(const lock_error& why);

    [[nodiscard]] bool has_priority() const noexcept { return has_priority_; }

    [[nodiscard]] bool has_happened() const noexcept { return why_.has_value(); }

    /// Why it has happened.
    [[nodiscard]] const lock_error& reason() const { return why_.value(); }

    /// Throws the reason if it has happened.
    void check() const {
        if (why_) throw lock_error(*why_);
    }

    /// While this lives, an interruption calls `stop`, which makes what is waited for end. Of those
    /// that live, the youngest counts.
    class scope {
      public:
        scope(interruption& whole, std::function<void()> stop)
            : whole_(whole), outer_(std::exchange(whole.stop_, std::move(stop))) {}
        scope(const scope&) = delete;
        scope& operator=(const scope&) = delete;
        ~scope() { whole_.stop_ = std::move(outer_); }

      private:
        interruption& whole_;
        std::function<void()> outer_;
    };

    /// Waits that long, or until `end_pause`. Throws the reason if it is interrupted.
    [[nodiscard]] boost::asio::awaitable<void> pause(std::chrono::steady_clock::duration length);
    void end_pause() { nap_.cancel(); }

  private:
    const bool has_priority_;
    boost::asio::steady_timer deadline_;
    boost::asio::steady_timer nap_;
    std::function<void()> stop_;
    std::optional<lock_error> why_;
};

}  // namespace syncguard::net
