/// Handlers of asynchronous calls whose execution context is destroyed, or refuses them.
#include "support/eventually.hpp"
#include "support/scripted_engine.hpp"

#include <syncguard/async.hpp>
#include <syncguard/lease.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gtest/gtest.h>

#include <atomic>
#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace syncguard::test {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

using any_result = acquire_result<any_capabilities>;

/// Grants everything; answers releases only once `answer` was called.
class late_releases {
  public:
    void answer() { may_answer_.set_value(); }
    [[nodiscard]] int answered() const { return *answered_; }
    [[nodiscard]] const any_backend& locks() const { return locks_; }

  private:
    std::promise<void> may_answer_;
    std::shared_future<void> answer_ = may_answer_.get_future().share();
    std::shared_ptr<std::atomic<int>> answered_ = std::make_shared<std::atomic<int>>(0);
    any_backend locks_ = any_backend(std::make_shared<scripted_engine>(
        [answer = answer_, answered = answered_](const request& req, const call_limits& limits) {
            if (std::holds_alternative<acquire_request>(req)) {
                return outcome::granted(unix_time(24h), fence::from_counter(1));
            }
            answer.wait();
            if (limits.stop.stop_requested()) {
                throw lock_error(error_code::aborted, "the release was cancelled");
            }
            ++*answered;
            return outcome::done();
        }));
};

/// Begins to release a lock in its destructor.
class releaser {
  public:
    releaser(const any_backend& locks, std::string lock_id, asio::io_context& io,
             std::shared_ptr<int> owned)
        : locks_(locks), lock_id_(std::move(lock_id)), io_(io), owned_(std::move(owned)) {}
    releaser(const releaser&) = delete;
    releaser& operator=(const releaser&) = delete;
    ~releaser() {
        async_release(
            locks_, lock_id_, {},
            asio::bind_executor(io_, [owned = owned_](std::exception_ptr, release_result) {
                ADD_FAILURE() << "nobody ran the context";
            }));
    }

  private:
    const any_backend& locks_;
    std::string lock_id_;
    asio::io_context& io_;
    std::shared_ptr<int> owned_;
};

asio::awaitable<void> hold_for_ever(const any_backend& locks, std::string lock_id,
                                    asio::io_context& io, std::shared_ptr<int> owned) {
    const releaser released_at_the_end(locks, std::move(lock_id), io, std::move(owned));
    asio::steady_timer timer(io, asio::steady_timer::time_point::max());
    co_await timer.async_wait(asio::use_awaitable);
}

/// The context destroys a coroutine that waits for a timer.
void destroy_a_context_that_holds(std::string lock_id, const std::shared_ptr<int>& owned,
                                  bool has_had_calls, const any_backend& locks) {
    const auto io = std::make_unique<asio::io_context>();
    if (has_had_calls) {
        async_is_locked(locks, "", {}, asio::bind_executor(*io, [](std::exception_ptr, bool) {}));
    }
    asio::co_spawn(*io, hold_for_ever(locks, std::move(lock_id), *io, owned), asio::detached);
    io->poll();
}

class dying_context : public testing::TestWithParam<bool> {};

TEST_P(dying_context, a_call_begun_during_its_destruction_reaches_the_store_without_a_handler) {
    late_releases store;
    const auto owned = std::make_shared<int>(0);
    auto lease = store.locks().acquire("k");
    ASSERT_TRUE(lease);
    destroy_a_context_that_holds(lease->detach().to_string(), owned, GetParam(), store.locks());
    EXPECT_EQ(owned.use_count(), 1);
    store.answer();
    EXPECT_TRUE(eventually([&] { return store.answered() == 1; }));
}

INSTANTIATE_TEST_SUITE_P(all, dying_context, testing::Bool(), [](const auto& test) {
    return test.param ? "that_has_had_calls" : "without_a_call_before";
});

/// An executor that refuses all work.
struct refusing_executor {
    template <class Function>
    void execute(Function&& /*work*/) const {
        throw std::runtime_error("this executor takes no work");
    }
    // NOLINTNEXTLINE(readability-named-parameter): the type is a property
    static constexpr asio::execution::blocking_t query(asio::execution::blocking_t) noexcept {
        return asio::execution::blocking.never;
    }
    friend bool operator==(const refusing_executor&, const refusing_executor&) noexcept {
        return true;
    }
    friend bool operator!=(const refusing_executor&, const refusing_executor&) noexcept {
        return false;
    }
};

TEST(handler, that_its_executor_refuses_is_destroyed_and_its_lock_is_released) {
    late_releases store;
    const auto owned = std::make_shared<int>(0);
    async_acquire(store.locks(), "k", {},
                  asio::bind_executor(refusing_executor(), [owned](std::exception_ptr, any_result) {
                      ADD_FAILURE() << "the executor took it";
                  }));
    EXPECT_TRUE(eventually([&] { return owned.use_count() == 1; }));
    store.answer();
    EXPECT_TRUE(eventually([&] { return store.answered() == 1; }));
}

}  // namespace
}  // namespace syncguard::test
