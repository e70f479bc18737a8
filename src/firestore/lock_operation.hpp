/// A request on its way through the client, and what has to follow an acquisition whose fate is
/// unknown.
#pragma once

#include "firestore/client.hpp"
#include "firestore/commit_retry.hpp"
#include "net/priority.hpp"
#include "net/result_promise.hpp"

#include <syncguard/engine.hpp>

#include <memory>
#include <optional>
#include <stop_token>
#include <string>

namespace syncguard::firestore {

class lock_operation : public coroutine_operation {
  public:
    /// `handler` is empty for a blocking caller, who then calls `result`.
    lock_operation(const request& what, const call_limits& limits,
                   const std::shared_ptr<client>& by, completion done);

    /// Lets a stop request cancel it, until it has ended.
    void watch_for_stop(const std::stop_token& stop);

    /// The outcome; throws the `lock_error` that ended it.
    [[nodiscard]] outcome result() { return promise_.result(); }

    /// The caller is gone: a lock that was acquired, or will have been, is released.
    void detach_caller() noexcept;

  private:
    [[nodiscard]] boost::asio::awaitable<void> run(lock_store& store,
                                                   net::call_context& ctx) override;
    void fail(std::exception_ptr why) noexcept override;
    void deliver() noexcept override;
    [[nodiscard]] bool has_priority() const noexcept override { return net::has_priority(what_); }

    [[nodiscard]] boost::asio::awaitable<void> perform(lock_store& store, net::call_context& ctx);
    void undo() noexcept;
    void clean_up() noexcept;

    /// Of the request, whose own view may end with the call, before this does.
    const std::string key_;
    const request what_;
    const std::weak_ptr<client> client_;
    net::result_promise promise_;
    attempts so_far_;
    std::optional<stored_lock> remains_;
};

}  // namespace syncguard::firestore
