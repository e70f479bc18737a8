/// A lock request as an operation of the client, and the background undo after an acquisition of
/// unknown outcome.
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
    lock_operation(const request& req, const call_limits& limits,
                   const std::shared_ptr<client>& owner, completion handler);

    /// Lets a stop request cancel the operation, until it has ended.
    void watch_for_stop(const std::stop_token& stop);

    /// The outcome; throws the `lock_error` that ended it.
    [[nodiscard]] outcome result() { return promise_.result(); }

    /// The caller is gone: releases the lock if this operation has acquired it or acquires it
    /// later.
    void detach_caller() noexcept;

  private:
    [[nodiscard]] boost::asio::awaitable<void> run(lock_store& store,
                                                   net::call_context& ctx) override;
    void fail(std::exception_ptr error) noexcept override;
    void deliver() noexcept override;
    [[nodiscard]] bool has_priority() const noexcept override { return net::has_priority(req_); }

    [[nodiscard]] boost::asio::awaitable<void> execute(lock_store& store, net::call_context& ctx);
    void undo_in_background() noexcept;
    void clean_up_in_background() noexcept;

    /// A copy of the request's key, whose view may become invalid before the operation has ended.
    const std::string key_;
    const request req_;
    const std::weak_ptr<client> client_;
    net::result_promise promise_;
    commit_retry retry_;
    std::optional<stored_lock> expired_lock_;
};

}  // namespace syncguard::firestore
