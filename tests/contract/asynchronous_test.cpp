/// Asynchronous API forms: on which thread handlers run, and what is left after a cancellation.
#include "contract/contract.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"

#include <syncguard/async.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <future>

namespace syncguard::test {
namespace {

namespace asio = boost::asio;

class asynchronous : public testing::TestWithParam<engine_kind> {
  protected:
    std::unique_ptr<engine_fixture> fixture_ = GetParam().make();
    any_backend locks_ = fixture_->open();
};

SYNCGUARD_RUN_ON_ENGINES(asynchronous, all_engines());

TEST_P(asynchronous, a_callback_runs_on_its_executor_and_never_inside_the_call) {
    asio::io_context io;
    bool initiated = false;
    bool called = false;
    async_acquire(locks_, "k", {},
                  asio::bind_executor(io, [&](std::exception_ptr failure, any_result result) {
                      EXPECT_TRUE(initiated);
                      EXPECT_FALSE(failure);
                      EXPECT_TRUE(result);
                      EXPECT_TRUE(io.get_executor().running_in_this_thread());
                      called = true;
                  }));
    initiated = true;
    io.run();
    EXPECT_TRUE(called);
}

TEST_P(asynchronous, a_callback_without_an_executor_is_called_too) {
    std::promise<bool> answered;
    async_acquire(locks_, "k", {}, [&](std::exception_ptr failure, any_result result) {
        answered.set_value(!failure && result.ok());
    });
    EXPECT_TRUE(answered.get_future().get());
}

TEST_P(asynchronous, an_invalid_argument_is_delivered_and_not_thrown) {
    asio::io_context io;
    bool called = false;
    async_acquire(locks_, "", {},
                  asio::bind_executor(io, [&](std::exception_ptr failure, any_result) {
                      ASSERT_TRUE(failure);
                      EXPECT_THROW(std::rethrow_exception(failure), lock_error);
                      called = true;
                  }));
    io.run();
    EXPECT_TRUE(called);
}

TEST_P(asynchronous, arguments_need_not_outlive_the_call) {
    asio::io_context io;
    bool called = false;
    {
        std::string key = "a key that is too long for the small string optimisation";
        async_acquire(locks_, key, {},
                      asio::bind_executor(io, [&](std::exception_ptr, any_result result) {
                          ASSERT_TRUE(result);
                          EXPECT_EQ(result->key(),
                                    "a key that is too long for the small string optimisation");
                          called = true;
                      }));
        key.assign(key.size(), 'x');
    }
    io.run();
    EXPECT_TRUE(called);
}

TEST_P(asynchronous, the_backend_may_be_destroyed_during_its_call) {
    asio::io_context io;
    bool called = false;
    {
        const any_backend brief = fixture_->open();
        async_acquire(brief, "k", {},
                      asio::bind_executor(io, [&](std::exception_ptr failure, any_result result) {
                          EXPECT_FALSE(failure);
                          EXPECT_TRUE(result);
                          called = true;
                      }));
    }
    io.run();
    EXPECT_TRUE(called);
}

TEST_P(asynchronous, a_deferred_operation_starts_when_it_is_launched) {
    asio::io_context io;
    auto operation = async_acquire(locks_, "k", {}, asio::deferred);
    EXPECT_FALSE(locks_.is_locked("k"));
    bool called = false;
    std::move(operation)(asio::bind_executor(io, [&](std::exception_ptr, any_result result) {
        EXPECT_TRUE(result);
        called = true;
    }));
    io.run();
    EXPECT_TRUE(called);
}

TEST_P(asynchronous, a_lease_that_no_handler_keeps_is_released_in_the_background) {
    asio::io_context io;
    async_acquire(locks_, "k", {}, asio::bind_executor(io, [](std::exception_ptr, any_result) {}));
    io.run();
    EXPECT_TRUE(eventually([&] { return !locks_.is_locked("k"); }));
}

TEST_P(asynchronous, a_cancelled_acquisition_is_granted_in_full_or_leaves_nothing) {
    for (int round = 0; round < 20; ++round) {
        asio::io_context io;
        asio::cancellation_signal cancel;
        std::optional<any_result> granted;
        async_acquire(
            locks_, "k", {},
            asio::bind_cancellation_slot(
                cancel.slot(),
                asio::bind_executor(io, [&](std::exception_ptr failure, any_result result) {
                    if (failure) {
                        expect_error(error_code::aborted, [&] { std::rethrow_exception(failure); });
                    } else {
                        granted = std::move(result);
                    }
                })));
        cancel.emit(asio::cancellation_type::terminal);
        io.run();
        if (granted) {
            EXPECT_TRUE(locks_.is_locked("k"));
            EXPECT_TRUE((*granted)->release().ok);
        } else {
            // If the request was sent already, its lock is released in the background.
            EXPECT_TRUE(eventually([&] { return !locks_.is_locked("k"); }));
        }
    }
}

TEST_P(asynchronous, an_io_context_may_be_destroyed_during_calls) {
    auto owned = std::make_shared<int>(0);
    for (int round = 0; round < 20; ++round) {
        asio::io_context io;
        for (int i = 0; i < 5; ++i) {
            async_acquire(locks_, "k" + std::to_string(i), {},
                          asio::bind_executor(io, [owned](std::exception_ptr, any_result) {
                              ADD_FAILURE() << "nobody ran the context";
                          }));
        }
    }
    // The handlers were destroyed with their contexts, and the locks granted to them are released.
    EXPECT_EQ(owned.use_count(), 1);
    for (int i = 0; i < 5; ++i) {
        EXPECT_TRUE(eventually([&] { return !locks_.is_locked("k" + std::to_string(i)); }));
    }
}

TEST_P(asynchronous, a_handler_never_runs_inside_the_emission_of_its_cancellation) {
    asio::io_context io;
    asio::cancellation_signal cancel;
    bool emitting = false;
    bool called = false;
    async_acquire(locks_, "k", {},
                  asio::bind_cancellation_slot(
                      cancel.slot(), asio::bind_executor(io, [&](std::exception_ptr, any_result) {
                          EXPECT_FALSE(emitting);
                          called = true;
                      })));
    emitting = true;
    cancel.emit(asio::cancellation_type::terminal);
    emitting = false;
    io.run();
    EXPECT_TRUE(called);
}

asio::awaitable<void> take_turns(const any_backend& locks, int turns, int& inside, int& total) {
    for (int done = 0; done < turns;) {
        auto lease = co_await async_acquire(locks, "k", {.ttl = 60s}, asio::use_awaitable);
        if (!lease) continue;
        EXPECT_EQ(++inside, 1);
        ++total;
        --inside;
        const auto released = co_await async_release(*lease, {}, asio::use_awaitable);
        EXPECT_TRUE(released.ok);
        ++done;
    }
}

TEST_P(asynchronous, coroutines_on_one_thread_take_turns) {
    asio::io_context io;
    int inside = 0;
    int total = 0;
    for (int i = 0; i < 5; ++i) {
        asio::co_spawn(io, take_turns(locks_, 10, inside, total), asio::detached);
    }
    io.run();
    EXPECT_EQ(total, 50);
}

}  // namespace
}  // namespace syncguard::test
