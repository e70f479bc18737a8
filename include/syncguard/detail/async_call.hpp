/// Delivers an engine's answer to an Asio handler. Not part of the API.
#pragma once

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <unordered_map>
#include <utility>

namespace syncguard::detail {

/// A call that is notified when its execution context is destroyed.
class abandonable {
  public:
    abandonable() = default;
    abandonable(const abandonable&) = delete;
    abandonable& operator=(const abandonable&) = delete;
    virtual ~abandonable() = default;

    /// Destroys the handler; the result of the call will be dropped. False if the handler was
    /// posted or destroyed before.
    virtual bool drop_handler() noexcept = 0;

    /// Calls `drop_handler` and cancels the call.
    virtual void abandon() noexcept = 0;
};

/// The calls whose handlers belong to an execution context. If the context is destroyed while calls
/// are outstanding, their handlers are destroyed with it, as those of Asio's own operations are.
/// Calls that destructors of handlers and coroutines begin during that time have no handler.
class outstanding_calls : public boost::asio::execution_context::service {
  public:
    using key_type = outstanding_calls;
    // NOLINTNEXTLINE(cert-err58-cpp): its constructor does nothing; Asio requires it here
    inline static boost::asio::execution_context::id id;

    explicit outstanding_calls(boost::asio::execution_context& context) : service(context) {}
    // If a service is created while its context is being destroyed, `shutdown` is not called. Its
    // calls were begun by destructors, and go on without a handler.
    ~outstanding_calls() override {
        drop_all([](abandonable& call) { (void)call.drop_handler(); });
    }

    /// False if the context is being destroyed.
    [[nodiscard]] bool add(const std::shared_ptr<abandonable>& call) {
        const std::lock_guard guard(mutex_);
        if (is_shut_down_) return false;
        calls_.emplace(call.get(), call);
        return true;
    }
    void remove(const abandonable* call) noexcept {
        const std::lock_guard guard(mutex_);
        calls_.erase(call);
    }

  private:
    void shutdown() noexcept override {
        drop_all([](abandonable& call) { call.abandon(); });
    }

    template <class Drop>
    void drop_all(Drop drop) noexcept {
        std::unordered_map<const abandonable*, std::weak_ptr<abandonable>> going;
        {
            const std::lock_guard guard(mutex_);
            is_shut_down_ = true;
            going.swap(calls_);
        }
        // Without the mutex: a call that completes now holds its own mutex and locks this one in
        // `remove`.
        for (const auto& [address, weak] : going) {
            if (const auto call = weak.lock()) drop(*call);
        }
    }

    std::mutex mutex_;
    bool is_shut_down_ = false;
    std::unordered_map<const abandonable*, std::weak_ptr<abandonable>> calls_;
};

/// One asynchronous call, from its start until its handler is posted. Cancellation becomes a stop
/// request; the answer arrives on any thread and is posted to the handler's executor.
template <class Handler, class Result>
class async_call : public abandonable,
                   public std::enable_shared_from_this<async_call<Handler, Result>> {
  public:
    [[nodiscard]] static std::shared_ptr<async_call> make(Handler handler) {
        auto call = std::make_shared<async_call>(std::move(handler));
        if (call->registry_ != nullptr && !call->registry_->add(call)) (void)call->drop_handler();
        return call;
    }

    explicit async_call(Handler handler)
        : waiting_(std::in_place, std::move(handler)), registry_(find_registry()) {
        if (auto slot = boost::asio::get_associated_cancellation_slot(waiting_->handler);
            slot.is_connected()) {
            slot.assign([stop = stop_](boost::asio::cancellation_type type) mutable {
                if (type != boost::asio::cancellation_type::none) stop.request_stop();
            });
        }
    }

    [[nodiscard]] std::stop_token stop() const noexcept { return stop_.get_token(); }

    void complete(std::exception_ptr failure, Result result) noexcept {
        // The mutex stays locked, and the call registered, until `post` has returned: if the
        // handler's context is destroyed as soon as the handler has run, its destruction waits for
        // this mutex.
        const std::lock_guard guard(mutex_);
        if (!waiting_) return;
        try {
            const auto executor = waiting_->work.get_executor();
            boost::asio::post(
                executor, [waiting = std::move(*waiting_), failure = std::move(failure),
                           result = std::move(result)]() mutable {
                    if (auto slot = boost::asio::get_associated_cancellation_slot(waiting.handler);
                        slot.is_connected()) {
                        slot.clear();
                    }
                    Handler handler = std::move(waiting.handler);
                    waiting.work.reset();
                    std::move(handler)(std::move(failure), std::move(result));
                });
        } catch (...) {
            // The executor has refused and destroyed the handler. If the handler was the last owner
            // of its context, the registry has called `abandon` and is destroyed as well.
            if (!waiting_) return;
        }
        waiting_.reset();
        if (registry_ != nullptr) registry_->remove(this);
    }

    bool drop_handler() noexcept override {
        std::optional<waiting_handler> dropped;
        const std::lock_guard guard(mutex_);
        if (!waiting_) return false;
        dropped.emplace(std::move(*waiting_));
        waiting_.reset();
        return true;
    }

    void abandon() noexcept override {
        if (!drop_handler()) return;
        // Without the mutex: the engine may answer a stop request at once.
        stop_.request_stop();
    }

  private:
    using executor_type = boost::asio::associated_executor_t<Handler>;

    struct waiting_handler {
        explicit waiting_handler(Handler waiting)
            : handler(std::move(waiting)), work(boost::asio::get_associated_executor(handler)) {}
        Handler handler;
        boost::asio::executor_work_guard<executor_type> work;
    };

    [[nodiscard]] outstanding_calls* find_registry() const {
        if constexpr (boost::asio::can_query<const executor_type&,
                                             boost::asio::execution::context_t>::value) {
            auto& context =
                boost::asio::query(waiting_->work.get_executor(), boost::asio::execution::context);
            return &boost::asio::use_service<outstanding_calls>(context);
        } else {
            return nullptr;
        }
    }

    /// Recursive: a handler that could not be posted is destroyed while this is locked, and may own
    /// its context, whose destruction calls `drop_handler`.
    std::recursive_mutex mutex_;
    std::optional<waiting_handler> waiting_;
    std::stop_source stop_;
    outstanding_calls* registry_;
};

}  // namespace syncguard::detail
