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
    course(client& of, std::shared_ptr<operation> what)
        : client_(of), what_(std::move(what)), failure_(no_memory()) {}
    course(course&& other) noexcept = default;
    course& operator=(course&&) = delete;
    ~course() {
        if (!what_) return;
        if (failure_) what_->fail(failure_);
        client_.set_ended(what_);
    }

    [[nodiscard]] operation& what() const { return *what_; }

    /// Its end is the end of the operation itself: a success, or that failure.
    void set_result(std::exception_ptr failure) noexcept { failure_ = std::move(failure); }

  private:
    static std::exception_ptr no_memory() noexcept {
        return std::make_exception_ptr(std::bad_alloc());
    }

    client& client_;
    std::shared_ptr<operation> what_;
    std::exception_ptr failure_;
};

client::client(access how, options store, warning_handler on_warning)
    : how_(std::move(how)),
      store_(std::move(store)),
      on_warning_(std::move(on_warning)),
      tls_({.authorities = store_.ca_file, .certificate = {}, .private_key = {}}),
      desk_(*this, how_.where),
      server_(desk_.driver().context(), how_, store_, tls_, shown_sockets_),
      locks_(server_, store_, on_warning_) {}

void client::prepare() {
    if (needs_tls(how_)) (void)tls_.get();
}

// Called by any thread.

void client::perform(const std::shared_ptr<operation>& what) {
    desk_.perform(what);
}

void client::start(const std::shared_ptr<operation>& what) {
    desk_.start(what);
}

void client::cancel(std::shared_ptr<operation> what) noexcept {
    desk_.cancel(std::move(what));
}

void client::end(std::chrono::milliseconds patience) {
    ending_ = true;
    desk_.end(patience);
    end_what_is_left();
}

// Called by the thread that drives.

net::driven::wishes client::step() {
    take_news();
    announce_ended();
    // Everything else happens on the loop.
    return {.at = steady_clock::now() + 1h, .tasks = 1};
}

bool client::has_work() const {
    return !running_.empty() || !ended_.empty() || !news_.empty() || server_.tokens().is_fetching();
}

void client::take_news() {
    desk_.driver().take_tasks(news_);
    // So that no operation ever ends without being announced.
    const auto most = ended_.size() + running_.size() + news_.size();
    if (ended_.capacity() < most) ended_.reserve(2 * most);
    for (const auto& each : news_)
        admit(std::static_pointer_cast<operation>(each));
    news_.clear();
    std::vector<std::shared_ptr<net::order>> unwanted;
    desk_.take_cancelled(unwanted);
    for (const auto& each : unwanted) {
        // One that has not come in yet is looked after when it does.
        const auto& limits = std::static_pointer_cast<operation>(each)->limits_;
        if (limits) limits->happen({error_code::aborted, "the operation was cancelled"});
    }
    if (ending_ && !std::exchange(has_hurried_, true)) {
        for (const auto& each : running_)
            each->limits_->end_pause();
    }
}

void client::admit(const std::shared_ptr<operation>& what) {
    course mine(*this, what);
    try {
        what->limits_ =
            std::make_shared<net::interruption>(desk_.driver().context(), what->has_priority());
        what->limits_->happen_at(what->deadline(), {error_code::network_timeout,
                                                    how_.where + " did not answer in time"});
        if (what->is_unwanted()) {
            what->limits_->happen({error_code::aborted, "the operation was cancelled"});
        }
        running_.insert(what);
        asio::co_spawn(desk_.driver().context(), carry_out(std::move(mine)), asio::detached);
    } catch (...) {
        mine.set_result(std::current_exception());
    }
}

asio::awaitable<void> client::carry_out(course mine) {
    std::exception_ptr failure;
    try {
        co_await mine.what().run(locks_, *mine.what().limits_);
    } catch (...) {
        failure = std::current_exception();
    }
    mine.set_result(std::move(failure));
}

void client::set_ended(const std::shared_ptr<operation>& what) noexcept {
    ended_.push_back(what);
    running_.erase(what);
}

void client::announce_ended() {
    if (ended_.empty()) return;
    std::vector<std::shared_ptr<operation>> ended;
    ended.reserve(ended_.capacity());
    ended.swap(ended_);
    for (const auto& each : ended)
        desk_.count_out(*each);
    desk_.driver().finish(ended);
    for (const auto& each : ended)
        each->announce();
}

/// Nothing may be under way when the loop goes.
void client::end_what_is_left() {
    const lock_error why(error_code::aborted, "the store was closed");
    server_.tokens().stop();
    for (const auto& each : running_)
        each->limits_->happen(why);
    while (!running_.empty() || server_.tokens().is_fetching())
        desk_.driver().context().run_one();
    // What is left of those that have ended.
    desk_.driver().context().poll();
    announce_ended();
}

}  // namespace syncguard::firestore
