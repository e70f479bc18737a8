#include "client.hpp"

#include <boost/asio/co_spawn.hpp>

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
    while (!news_.empty()) {
        admit(std::static_pointer_cast<operation>(news_.front()));
        news_.erase(news_.begin());
    }
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
    try {
        ended_.reserve(ended_.size() + running_.size() + 1);
        what->limits_ = std::make_shared<net::interruption>(desk_.driver().context());
        what->limits_->happen_at(what->deadline(), {error_code::network_timeout,
                                                    how_.where + " did not answer in time"});
        if (what->is_unwanted()) {
            what->limits_->happen({error_code::aborted, "the operation was cancelled"});
        }
        running_.insert(what);
        asio::co_spawn(desk_.driver().context(), carry_out(what),
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
    announce_ended();
}

}  // namespace syncguard::firestore
