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

bool needs_tls(const access& how) {
    if (how.origin.tls) return true;
    return !std::holds_alternative<emulator_owner>(how.whose) &&
           token_location(how.whose).origin.tls;
}

}  // namespace

/// An operation on its way. When this goes, the operation has ended: also where the coroutine that
/// has it is swept away, because there was no memory to go on with it.
class client::course {
  public:
    course(client& of, std::shared_ptr<coroutine_operation> what)
        : client_(of), what_(std::move(what)), failure_(no_memory()) {}
    course(course&& other) noexcept = default;
    course& operator=(course&&) = delete;
    ~course() {
        if (!what_) return;
        if (failure_) what_->fail(failure_);
        client_.finish(what_);
    }

    [[nodiscard]] coroutine_operation& what() const { return *what_; }

    /// Its end is the end of the operation itself: a success, or that failure.
    void set_result(std::exception_ptr failure) noexcept { failure_ = std::move(failure); }

  private:
    static std::exception_ptr no_memory() noexcept {
        return std::make_exception_ptr(std::bad_alloc());
    }

    client& client_;
    std::shared_ptr<coroutine_operation> what_;
    std::exception_ptr failure_;
};

client::client(access how, options store, warning_handler on_warning)
    : how_(std::move(how)),
      store_(std::move(store)),
      on_warning_(std::move(on_warning)),
      tls_({.authorities = store_.ca_file, .certificate = {}, .private_key = {}}),
      submissions_(*this, how_.where),
      server_(submissions_.loop().context(), how_, store_, tls_, sockets_),
      locks_(server_, store_, on_warning_) {}

void client::prepare() {
    if (needs_tls(how_)) (void)tls_.get();
}

// Called by any thread.

void client::execute(const std::shared_ptr<coroutine_operation>& what) {
    submissions_.execute(what);
}

void client::submit(const std::shared_ptr<coroutine_operation>& what) {
    submissions_.submit(what);
}

void client::cancel(std::shared_ptr<coroutine_operation> what) noexcept {
    submissions_.cancel(std::move(what));
}

void client::shutdown(std::chrono::milliseconds grace) {
    shutting_down_ = true;
    submissions_.shutdown(grace);
    end_what_is_left();
}

// Called by the leader.

net::io_loop::handler::step_result client::run_once() {
    drain_submissions();
    deliver_completions();
    // Everything else happens on the loop.
    return {.wake_at = steady_clock::now() + 1h, .min_batch = 1};
}

bool client::has_outstanding_work() const {
    return !running_.empty() || !completed_.empty() || !submitted_.empty() ||
           server_.tokens().is_fetching();
}

void client::drain_submissions() {
    submissions_.loop().drain_submitted(submitted_);
    // So that no completion fails to be delivered.
    const auto most = completed_.size() + running_.size() + submitted_.size();
    if (completed_.capacity() < most) completed_.reserve(2 * most);
    for (const auto& each : submitted_)
        admit(std::static_pointer_cast<coroutine_operation>(each));
    submitted_.clear();
    std::vector<std::shared_ptr<net::operation>> unwanted;
    submissions_.drain_cancelled(unwanted);
    for (const auto& each : unwanted) {
        // One that is not admitted yet is handled at its admission.
        const auto& ctx = std::static_pointer_cast<coroutine_operation>(each)->ctx_;
        if (ctx) ctx->cancel({error_code::aborted, "the operation was cancelled"});
    }
    if (shutting_down_ && !std::exchange(has_hurried_, true)) {
        for (const auto& each : running_)
            each->ctx_->wake();
    }
}

void client::admit(const std::shared_ptr<coroutine_operation>& what) {
    course mine(*this, what);
    try {
        what->ctx_ = std::make_shared<net::call_context>(submissions_.loop().context(),
                                                         what->has_priority());
        what->ctx_->set_deadline(what->deadline(), {error_code::network_timeout,
                                                    how_.where + " did not answer in time"});
        if (what->cancel_requested()) {
            what->ctx_->cancel({error_code::aborted, "the operation was cancelled"});
        }
        running_.insert(what);
        asio::co_spawn(submissions_.loop().context(), carry_out(std::move(mine)), asio::detached);
    } catch (...) {
        mine.set_result(std::current_exception());
    }
}

asio::awaitable<void> client::carry_out(course mine) {
    std::exception_ptr failure;
    try {
        co_await mine.what().run(locks_, *mine.what().ctx_);
    } catch (...) {
        failure = std::current_exception();
    }
    mine.set_result(std::move(failure));
}

void client::finish(const std::shared_ptr<coroutine_operation>& what) noexcept {
    completed_.push_back(what);
    running_.erase(what);
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

/// Nothing may be under way when the loop goes.
void client::end_what_is_left() {
    const lock_error why(error_code::aborted, "the store was closed");
    server_.tokens().stop();
    for (const auto& each : running_)
        each->ctx_->cancel(why);
    while (!running_.empty() || server_.tokens().is_fetching())
        submissions_.loop().context().run_one();
    // What is left of those that have ended.
    submissions_.loop().context().poll();
    deliver_completions();
}

}  // namespace syncguard::firestore
