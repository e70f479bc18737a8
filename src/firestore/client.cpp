#include "firestore/client.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <exception>
#include <new>
#include <utility>

namespace syncguard::firestore {

namespace asio = boost::asio;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

bool needs_tls(const service_config& config) {
    if (config.origin.tls) return true;
    return !std::holds_alternative<emulator_owner>(config.credentials) &&
           token_location(config.credentials).origin.tls;
}

}  // namespace

/// Scope guard: finishes its operation when it is destroyed, also if the coroutine that owns it is
/// destroyed because memory ran out.
class client::operation_guard {
  public:
    operation_guard(client& owner, std::shared_ptr<coroutine_operation> op)
        : client_(owner), op_(std::move(op)), failure_(no_memory()) {}
    operation_guard(operation_guard&& other) noexcept = default;
    operation_guard& operator=(operation_guard&&) = delete;
    ~operation_guard() {
        if (!op_) return;
        if (failure_) op_->fail(failure_);
        client_.finish(op_);
    }

    [[nodiscard]] coroutine_operation& op() const { return *op_; }

    /// Sets the result of the operation: success if `failure` is null.
    void set_result(std::exception_ptr failure) noexcept { failure_ = std::move(failure); }

  private:
    static std::exception_ptr no_memory() noexcept {
        return std::make_exception_ptr(std::bad_alloc());
    }

    client& client_;
    std::shared_ptr<coroutine_operation> op_;
    std::exception_ptr failure_;
};

client::client(service_config config, options opts, warning_handler on_warning)
    : config_(std::move(config)),
      opts_(std::move(opts)),
      on_warning_(std::move(on_warning)),
      tls_({.authorities = opts_.ca_file, .certificate = {}, .private_key = {}}),
      submissions_(*this, config_.server_name),
      server_(submissions_.loop().context(), config_, opts_, tls_, sockets_),
      locks_(server_, opts_, on_warning_) {}

void client::prepare() {
    if (needs_tls(config_)) (void)tls_.get();
}

// Called by any thread.

void client::execute(const std::shared_ptr<coroutine_operation>& op) {
    submissions_.execute(op);
}

void client::submit(const std::shared_ptr<coroutine_operation>& op) {
    submissions_.submit(op);
}

void client::cancel(std::shared_ptr<coroutine_operation> op) noexcept {
    submissions_.cancel(std::move(op));
}

void client::shutdown(std::chrono::milliseconds grace) {
    shutting_down_ = true;
    submissions_.shutdown(grace);
    cancel_running();
}

// Called by the leader.

net::io_loop::handler::step_result client::run_once() {
    drain_submissions();
    deliver_completions();
    // All other work is done by coroutines on the loop.
    return {.wake_at = steady_clock::now() + 1h, .min_batch = 1};
}

bool client::has_outstanding_work() const {
    return !running_.empty() || !completed_.empty() || !submitted_.empty() ||
           server_.tokens().is_fetching();
}

void client::drain_submissions() {
    submissions_.loop().drain_submitted(submitted_);
    // So that `finish` never has to allocate.
    const auto max_completed = completed_.size() + running_.size() + submitted_.size();
    if (completed_.capacity() < max_completed) completed_.reserve(2 * max_completed);
    for (const auto& each : submitted_)
        admit(std::static_pointer_cast<coroutine_operation>(each));
    submitted_.clear();
    std::vector<std::shared_ptr<net::operation>> cancelled;
    submissions_.drain_cancelled(cancelled);
    for (const auto& each : cancelled) {
        // An operation that is not admitted yet is ended at its admission.
        const auto& ctx = std::static_pointer_cast<coroutine_operation>(each)->ctx_;
        if (ctx) ctx->cancel({error_code::aborted, "the operation was cancelled"});
    }
    if (shutting_down_ && !std::exchange(has_ended_pauses_, true)) {
        for (const auto& each : running_)
            each->ctx_->wake();
    }
}

void client::admit(const std::shared_ptr<coroutine_operation>& op) {
    operation_guard guard(*this, op);
    try {
        op->ctx_ =
            std::make_shared<net::call_context>(submissions_.loop().context(), op->has_priority());
        op->ctx_->set_deadline(op->deadline(), {error_code::network_timeout,
                                                config_.server_name + " did not answer in time"});
        if (op->cancel_requested()) {
            op->ctx_->cancel({error_code::aborted, "the operation was cancelled"});
        }
        running_.insert(op);
        asio::co_spawn(submissions_.loop().context(), run_operation(std::move(guard)),
                       asio::detached);
    } catch (...) {
        guard.set_result(std::current_exception());
    }
}

asio::awaitable<void> client::run_operation(operation_guard guard) {
    std::exception_ptr failure;
    try {
        co_await guard.op().run(locks_, *guard.op().ctx_);
    } catch (...) {
        failure = std::current_exception();
    }
    guard.set_result(std::move(failure));
}

void client::finish(const std::shared_ptr<coroutine_operation>& op) noexcept {
    completed_.push_back(op);
    running_.erase(op);
}

void client::deliver_completions() {
    if (completed_.empty()) return;
    std::vector<std::shared_ptr<coroutine_operation>> completed;
    completed.reserve(completed_.capacity());
    completed.swap(completed_);
    for (const auto& each : completed)
        submissions_.retire(*each);
    submissions_.loop().finish(completed);
    for (const auto& each : completed)
        each->deliver();
}

/// No coroutine may be suspended when the loop is destroyed.
void client::cancel_running() {
    const lock_error error(error_code::aborted, "the store was closed");
    server_.tokens().stop();
    for (const auto& each : running_)
        each->ctx_->cancel(error);
    while (!running_.empty() || server_.tokens().is_fetching())
        submissions_.loop().context().run_one();
    // Runs the remaining handlers of the cancelled operations.
    submissions_.loop().context().poll();
    deliver_completions();
}

}  // namespace syncguard::firestore
