#include "client.hpp"

#include <boost/asio/co_spawn.hpp>

#include <utility>

namespace syncguard::firestore {

namespace asio = boost::asio;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t most_unfinished = 100'000;

bool needs_tls(const access& how) {
    if (how.origin.tls) return true;
    return !std::holds_alternative<emulator_owner>(how.whose) &&
           token_location(how.whose).origin.tls;
}

}  // namespace

client::client(access how, options store, warning_handler on_warning)
    : how_(std::move(how)),
      store_(std::move(store)),
      on_warning_(std::move(on_warning)),
      tls_({.authorities = store_.ca_file, .certificate = {}, .private_key = {}}),
      driver_(*this),
      server_(driver_.context(), how_, store_, tls_, shown_sockets_),
      locks_(server_, store_, on_warning_) {}

void client::prepare() {
    if (needs_tls(how_)) (void)tls_.get();
}

// Called by any thread.

void client::perform(const std::shared_ptr<operation>& what) {
    count_in(*what);
    try {
        driver_.perform(what);
    } catch (...) {
        if (!what->was_handed_in()) count_out(*what);
        throw;
    }
}

void client::start(const std::shared_ptr<operation>& what) {
    count_in(*what);
    try {
        driver_.start(what);
    } catch (...) {
        count_out(*what);
        throw;
    }
}

void client::cancel(std::shared_ptr<operation> what) noexcept {
    what->unwanted_ = true;
    try {
        {
            const std::lock_guard guard(mutex_);
            cancelled_.push_back(std::move(what));
        }
        driver_.nudge();
    } catch (const std::bad_alloc&) {  // its deadline will end it
    }
}

void client::end(std::chrono::milliseconds patience) {
    const auto none_persists = [&] { return persisting_ == 0; };
    const auto none_persists_now = [&] {
        const std::lock_guard guard(mutex_);
        return none_persists();
    };
    ending_ = true;
    // Where the last owner was a completion, this is the thread that the operations need.
    try {
        driver_.nudge();
        if (!driver_.drive_if_mine(none_persists_now, steady_clock::now() + patience)) {
            std::unique_lock guard(mutex_);
            none_persists_.wait_for(guard, patience, none_persists);
        }
    } catch (const std::exception&) {  // no memory: the locks end with their TTL
    }
    driver_.end();
    end_what_is_left();
}

void client::count_in(const operation& what) {
    // What undoes something must not be kept out by what is to be undone.
    if (unfinished_ >= most_unfinished && !what.persists()) {
        throw lock_error(error_code::rate_limited,
                         "too many operations wait for " + how_.where + " already");
    }
    ++unfinished_;
    if (!what.persists()) return;
    const std::lock_guard guard(mutex_);
    ++persisting_;
}

void client::count_out(const operation& what) noexcept {
    --unfinished_;
    if (!what.persists()) return;
    const std::lock_guard guard(mutex_);
    if (--persisting_ == 0) none_persists_.notify_all();
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
    driver_.take_tasks(news_);
    while (!news_.empty()) {
        admit(std::static_pointer_cast<operation>(news_.front()));
        news_.erase(news_.begin());
    }
    std::vector<std::shared_ptr<operation>> unwanted;
    {
        const std::lock_guard guard(mutex_);
        unwanted.swap(cancelled_);
    }
    for (const auto& each : unwanted) {
        // One that has not come in yet is looked after when it does.
        if (each->limits_)
            each->limits_->happen({error_code::aborted, "the operation was cancelled"});
    }
    if (ending_ && !std::exchange(has_hurried_, true)) {
        for (const auto& each : running_)
            each->limits_->end_pause();
    }
}

void client::admit(const std::shared_ptr<operation>& what) {
    try {
        ended_.reserve(ended_.size() + running_.size() + 1);
        what->limits_ = std::make_shared<net::interruption>(driver_.context());
        what->limits_->happen_at(what->deadline(), {error_code::network_timeout,
                                                    how_.where + " did not answer in time"});
        if (what->unwanted_) {
            what->limits_->happen({error_code::aborted, "the operation was cancelled"});
        }
        running_.insert(what);
        asio::co_spawn(driver_.context(), carry_out(what),
                       [this, what](const std::exception_ptr& /*none*/) { set_ended(what); });
    } catch (...) {
        what->fail(std::current_exception());
        set_ended(what);
    }
}

asio::awaitable<void> client::carry_out(std::shared_ptr<operation> what) {
    try {
        co_await what->run(locks_, *what->limits_);
    } catch (...) {
        what->fail(std::current_exception());
    }
}

void client::set_ended(const std::shared_ptr<operation>& what) {
    ended_.push_back(what);
    running_.erase(what);
}

void client::announce_ended() {
    if (ended_.empty()) return;
    std::vector<std::shared_ptr<operation>> ended;
    ended.swap(ended_);
    for (const auto& each : ended)
        count_out(*each);
    driver_.finish(ended);
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
        driver_.context().run_one();
    announce_ended();
}

}  // namespace syncguard::firestore
