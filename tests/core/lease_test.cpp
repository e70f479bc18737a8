#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"
#include "support/scripted_engine.hpp"
#include "support/scripted_extensions.hpp"

#include <syncguard/async.hpp>
#include <syncguard/lease.hpp>
#include <syncguard/lock.hpp>
#include <syncguard/memory.hpp>

#include <boost/asio/use_future.hpp>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <thread>
#include <utility>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;

TEST(lease, leaving_the_scope_releases) {
    const memory::backend locks;
    {
        auto lease = locks.acquire("k");
        ASSERT_TRUE(lease);
        EXPECT_TRUE(locks.is_locked("k"));
    }
    EXPECT_FALSE(locks.is_locked("k"));
}

TEST(lease, an_exception_releases) {
    const memory::backend locks;
    EXPECT_THROW(
        {
            auto lease = locks.acquire("k");
            throw std::runtime_error("in the middle of it");
        },
        std::runtime_error);
    EXPECT_FALSE(locks.is_locked("k"));
}

TEST(lease, moving_transfers_the_lock_and_assigning_releases_the_previous_one) {
    const memory::backend locks;
    auto a = *locks.acquire("a");
    auto b = *locks.acquire("b");
    EXPECT_TRUE(a.valid());
    a = std::move(b);
    EXPECT_FALSE(locks.is_locked("a"));
    EXPECT_TRUE(locks.is_locked("b"));
    EXPECT_EQ(a.key(), "b");
    EXPECT_FALSE(b.valid());  // NOLINT(bugprone-use-after-move): moved-from leases are empty
    EXPECT_EQ(b.remaining(), 0ms);
}

TEST(lease, may_outlive_its_backend) {
    auto lease = [] { return memory::backend().acquire("k"); }();
    ASSERT_TRUE(lease);
    EXPECT_TRUE(lease->extend().ok);
    EXPECT_TRUE(lease->release().ok);
}

TEST(lease, expires_by_its_own_clock_even_if_the_store_keeps_the_lock) {
    const memory::backend locks;
    auto lease = locks.acquire("k", {.ttl = 20ms});
    ASSERT_TRUE(lease);
    EXPECT_TRUE(eventually([&] { return !lease->valid(); }));
    EXPECT_EQ(lease->remaining(), 0ms);
    // The store tolerates a second of clock difference; the lease does not rely on it.
    EXPECT_TRUE(locks.is_locked("k"));
}

TEST(lease, its_time_starts_before_the_request_is_sent) {
    constexpr auto slowness = 60ms;
    const any_backend slow(
        std::make_shared<scripted_engine>([&](const request&, const call_limits&) {
            std::this_thread::sleep_for(slowness);
            return outcome::granted(unix_time(1h), fence::from_counter(1));
        }));
    auto lease = slow.acquire("k", {.ttl = 10s});
    ASSERT_TRUE(lease);
    EXPECT_LE(lease->remaining(), 10s - slowness);
    ASSERT_TRUE(lease->extend({.ttl = 5s}).ok);
    EXPECT_LE(lease->remaining(), 5s - slowness);
}

TEST(lease, is_invalid_in_a_forked_child_and_releases_nothing) {
    const memory::backend locks;
    auto lease = locks.acquire("k");
    ASSERT_TRUE(lease);
    child_process child([&] {
        if (lease->valid() || lease->release().ok || lease->extend().ok) return 1;
        { auto gone = std::move(*lease); }
        // The child's copy of the store shows that the child has not released the lock.
        return locks.is_locked("k") ? 0 : 2;
    });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_TRUE(lease->valid());
    EXPECT_TRUE(lease->release().ok);
}

/// A store that grants every lock and fails to release it.
std::shared_ptr<engine> failing_release(error_code code, const std::string& message) {
    return std::make_shared<scripted_engine>(
        [=](const request& req, const call_limits&) -> outcome {
            if (std::holds_alternative<release_request>(req)) throw lock_error(code, message);
            return outcome::granted(unix_time(1h), fence::from_counter(1));
        });
}

TEST(lease, a_release_that_fails_in_the_destructor_is_reported_to_the_backends_handler) {
    std::vector<std::string> reports;
    const any_backend locks(
        failing_release(error_code::service_unavailable, "unplugged"),
        {.on_release_error = [&](const lock_error& error, const release_error_context& context) {
            reports.push_back(std::string(to_string(error.code())) + "|" + error.what() + "|" +
                              std::string(context.key) + "|" +
                              std::string(to_string(context.source)));
            throw std::runtime_error("handlers may throw");
        }});
    { auto lease = locks.acquire("k"); }
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0], "ServiceUnavailable|unplugged|k|disposal");
}

TEST(lease, the_handler_of_the_lease_takes_precedence) {
    int backends = 0;
    int own = 0;
    const any_backend locks(failing_release(error_code::internal, "no"),
                            {.on_release_error = [&](const auto&, const auto&) { ++backends; }});
    {
        auto lease = locks.acquire("k");
        lease->on_release_error([&](const auto&, const auto&) { ++own; });
    }
    EXPECT_EQ(backends, 0);
    EXPECT_EQ(own, 1);
}

TEST(lease, after_a_failed_release_the_outcome_is_unknown_and_the_destructor_retries) {
    std::atomic<int> attempts{0};
    auto store =
        std::make_shared<scripted_engine>([&](const request& req, const call_limits&) -> outcome {
            if (!std::holds_alternative<release_request>(req)) {
                return outcome::granted(unix_time(1h), fence::from_counter(1));
            }
            if (++attempts == 1) throw lock_error(error_code::service_unavailable, "once");
            return outcome::done();
        });
    {
        auto lease = any_backend(store).acquire("k");
        expect_error(error_code::service_unavailable, [&] { (void)lease->release(); });
        EXPECT_FALSE(lease->valid());
    }
    EXPECT_EQ(attempts, 2);
}

TEST(lease, a_lock_found_gone_stays_gone_even_if_a_release_fails_at_the_same_time) {
    std::promise<void> release_is_under_way;
    std::promise<void> let_it_fail;
    auto blocked = let_it_fail.get_future().share();
    const any_backend locks(std::make_shared<scripted_engine>(
        [&, blocked](const request& req, const call_limits&) -> outcome {
            if (std::holds_alternative<extend_request>(req)) {
                return outcome::failed(failure_reason::not_found);
            }
            if (std::holds_alternative<acquire_request>(req)) {
                return outcome::granted(unix_time(1h), fence::from_counter(1));
            }
            release_is_under_way.set_value();
            blocked.wait();
            throw lock_error(error_code::service_unavailable, "cut");
        }));
    auto lease = locks.acquire("k");
    auto releasing = std::async(std::launch::async, [&] {
        expect_error(error_code::service_unavailable, [&] { (void)lease->release(); });
    });
    release_is_under_way.get_future().get();
    lease->detach();
    let_it_fail.set_value();
    releasing.get();
    EXPECT_FALSE(lease->valid());
    EXPECT_FALSE(lease->release().ok);
}

TEST(lease, the_shorter_of_overlapping_extensions_counts) {
    for (const bool long_one_ends_last : {false, true}) {
        std::map<milliseconds, std::promise<void>> begun;
        std::map<milliseconds, std::promise<void>> finish;
        for (const milliseconds ttl : {5s, 60s}) {
            begun[ttl];
            finish[ttl];
        }
        const any_backend locks(
            std::make_shared<scripted_engine>([&](const request& req, const call_limits&) {
                if (const auto* extend = std::get_if<extend_request>(&req)) {
                    begun.at(extend->ttl).set_value();
                    finish.at(extend->ttl).get_future().wait();
                    return outcome::extended(unix_time(1h));
                }
                return outcome::granted(unix_time(1h), fence::from_counter(1));
            }));
        auto lease = locks.acquire("k", {.ttl = 1s});
        const auto extend = [&](milliseconds ttl) {
            auto running = std::async(std::launch::async,
                                      [&, ttl] { EXPECT_TRUE(lease->extend({.ttl = ttl}).ok); });
            begun.at(ttl).get_future().get();
            return running;
        };
        auto brief = extend(5s);
        auto lengthy = extend(60s);
        for (const milliseconds ttl : long_one_ends_last ? std::array<milliseconds, 2>{5s, 60s}
                                                         : std::array<milliseconds, 2>{60s, 5s}) {
            finish.at(ttl).set_value();
            (ttl == 5s ? brief : lengthy).get();
        }
        EXPECT_GT(lease->remaining(), 1s);
        EXPECT_LE(lease->remaining(), 5s);
    }
}

TEST(lease, a_shorter_extension_counts_from_its_sending_although_its_answer_is_late) {
    std::promise<void> sent;
    std::promise<void> answer;
    auto answered = answer.get_future().share();
    scripted_extensions store([&, answered](const extend_request&) {
        sent.set_value();
        answered.wait();
        return outcome::extended(unix_time(1h));
    });
    auto lease = store.acquire(30s);
    auto extending = std::async(std::launch::async, [&] { return lease.extend({.ttl = 500ms}); });
    sent.get_future().get();
    EXPECT_LE(lease.remaining(), 500ms);
    EXPECT_TRUE(eventually([&] { return !lease.valid(); }));
    answer.set_value();
    EXPECT_FALSE(extending.get().ok);
    EXPECT_FALSE(lease.valid());
}

TEST(lease, an_extension_of_unknown_outcome_limits_it_until_its_end) {
    std::atomic<bool> fails{true};
    scripted_extensions store([&](const extend_request&) {
        if (fails) throw lock_error(error_code::network_timeout, "no answer");
        return outcome::extended(unix_time(1h));
    });
    auto lease = store.acquire(60s);
    expect_error(error_code::network_timeout, [&] { (void)lease.extend({.ttl = 20s}); });
    EXPECT_LE(lease.remaining(), 20s);
    fails = false;
    // The store may execute the lost extension after this one.
    EXPECT_TRUE(lease.extend({.ttl = 60s}).ok);
    EXPECT_LE(lease.remaining(), 20s);
    EXPECT_GT(lease.remaining(), 15s);
    // The lost extension does not lengthen a shorter one.
    EXPECT_TRUE(lease.extend({.ttl = 5s}).ok);
    EXPECT_LE(lease.remaining(), 5s);
}

TEST(lease, an_extension_that_was_never_sent_does_not_limit_it) {
    scripted_extensions store(
        [](const extend_request&) { return outcome::extended(unix_time(1h)); });
    auto lease = store.acquire(60s);
    std::stop_source stop;
    stop.request_stop();
    expect_error(error_code::aborted, [&] { (void)lease.extend({.ttl = 1s}, stop.get_token()); });
    expect_error(error_code::invalid_argument, [&] { (void)lease.extend({.ttl = -1ms}); });
    EXPECT_GT(lease.remaining(), 50s);
    EXPECT_EQ(store.extends(), 0);
}

TEST(lease, an_answer_after_its_end_does_not_revive_it) {
    std::promise<void> answer;
    auto answered = answer.get_future().share();
    scripted_extensions store([answered](const extend_request&) {
        answered.wait();
        return outcome::extended(unix_time(1h));
    });
    auto lease = store.acquire(100ms);
    auto extending = std::async(std::launch::async, [&] { return lease.extend({.ttl = 60s}); });
    EXPECT_TRUE(eventually([&] { return !lease.valid(); }));
    answer.set_value();
    EXPECT_FALSE(extending.get().ok);
    EXPECT_FALSE(lease.valid());
    EXPECT_FALSE(lease.extend({.ttl = 60s}).ok);
    EXPECT_FALSE(lease.valid());
}

TEST(lease, ends_before_a_store_with_a_faster_clock_expires_the_lock) {
    for (const double drift : {0.01, 0.08, 0.5}) {
        const any_backend locks(
            std::make_shared<scripted_engine>([](const request&, const call_limits&) {
                return outcome::granted(unix_time(1h), fence::from_counter(1));
            }),
            {.clock_drift = drift});
        auto lease = locks.acquire("k", {.ttl = 100s});
        ASSERT_TRUE(lease);
        const auto expected = 100s - std::chrono::milliseconds(static_cast<int>(100'000 * drift));
        EXPECT_LE(lease->remaining(), expected - (drift < 0.5 ? 2ms : 0ms)) << drift;
        EXPECT_GT(lease->remaining(), expected - 5s) << drift;
        ASSERT_TRUE(lease->extend({.ttl = 50s}).ok);
        EXPECT_LE(lease->remaining(), expected / 2) << drift;
    }
    for (const double drift : {0.0, 0.009, 0.51, -1.0, std::nan("")}) {
        expect_error(error_code::invalid_argument,
                     [&] { const memory::backend locks({}, {.clock_drift = drift}); });
    }
}

/// Counts releases. The first one waits, and fails when it is cancelled or the test lets it fail.
class first_release_fails {
  public:
    [[nodiscard]] any_backend backend(backend_options options = {}) {
        return any_backend(std::make_shared<scripted_engine>(
                               [state = state_](const request& req, const call_limits&) -> outcome {
                                   if (!std::holds_alternative<release_request>(req)) {
                                       return outcome::granted(unix_time(1h),
                                                               fence::from_counter(1));
                                   }
                                   if (++state->releases > 1 && !state->all_fail)
                                       return outcome::done();
                                   state->may_fail.wait();
                                   throw lock_error(error_code::network_timeout, "no answer");
                               }),
                           std::move(options));
    }
    [[nodiscard]] int releases() const { return state_->releases; }
    void fail() { state_->fail.set_value(); }
    void fail_always() { state_->all_fail = true; }

  private:
    struct state {
        std::promise<void> fail;
        std::shared_future<void> may_fail = fail.get_future().share();
        std::atomic<int> releases{0};
        std::atomic<bool> all_fail{false};
    };
    std::shared_ptr<state> state_ = std::make_shared<state>();
};

TEST(lease, destroyed_during_its_asynchronous_release_is_released_again_if_that_fails) {
    first_release_fails store;
    const auto locks = store.backend();
    std::future<release_result> releasing;
    {
        auto lease = locks.acquire("k");
        releasing = async_release(*lease, {}, boost::asio::use_future);
        EXPECT_TRUE(eventually([&] { return store.releases() == 1; }));
    }
    store.fail();
    expect_error(error_code::network_timeout, [&] { (void)releasing.get(); });
    EXPECT_TRUE(eventually([&] { return store.releases() == 2; }));
}

TEST(lease, destroyed_during_its_asynchronous_release_reports_when_no_release_succeeds) {
    first_release_fails store;
    store.fail_always();
    std::atomic<int> reports{0};
    const auto locks =
        store.backend({.on_release_error = [&](const auto&, const auto&) { ++reports; }});
    {
        auto lease = locks.acquire("k");
        auto releasing = async_release(*lease, {}, boost::asio::use_future);
        EXPECT_TRUE(eventually([&] { return store.releases() == 1; }));
    }
    store.fail();
    EXPECT_TRUE(eventually([&] { return reports == 1; }));
    EXPECT_EQ(store.releases(), 2);
}

/// Runs `body` in a child that was created without fork handlers; returns its exit code.
int exit_code_in_bare_child(const std::function<int()>& body) {
    const auto pid = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    if (pid == 0) {
        int code = 99;
        try {
            code = body();
        } catch (const std::exception&) {
        }
        ::_exit(code);
    }
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

TEST(lease, is_invalid_in_a_child_that_ran_no_fork_handlers_and_releases_nothing) {
    auto locks = std::make_optional<memory::backend>();
    auto lease = locks->acquire("k");
    ASSERT_TRUE(lease);
    EXPECT_EQ(exit_code_in_bare_child([&] {
                  if (lease->valid() || lease->release().ok || lease->extend().ok) return 1;
                  { auto gone = std::move(*lease); }
                  try {
                      (void)locks->is_locked("k");
                      return 2;
                  } catch (const lock_error& failure) {
                      if (failure.code() != error_code::internal) return 3;
                  }
                  locks.reset();
                  // A new backend belongs to this process.
                  const memory::backend own;
                  auto owned = own.acquire("k");
                  return owned && owned->valid() && owned->release().ok ? 0 : 4;
              }),
              0);
    EXPECT_TRUE(lease->valid());
    EXPECT_TRUE(lease->release().ok);
}

TEST(lease, a_handled_fork_of_a_child_that_ran_no_fork_handlers_does_not_make_it_usable) {
    const memory::backend locks;
    EXPECT_EQ(exit_code_in_bare_child([&] {
                  const memory::backend own;
                  child_process grandchild([&] {
                      auto owned = own.acquire("k");
                      if (!owned) return 1;
                      try {
                          (void)locks.is_locked("k");
                      } catch (const lock_error&) {
                          return 0;
                      }
                      return 2;
                  });
                  return grandchild.wait();
              }),
              0);
}

/// Grants with a fence chosen by the test, and counts releases.
class fenced_engine : public engine {
  public:
    fenced_engine(bool supports_fencing, fence granted)
        : supports_fencing_(supports_fencing), granted_(std::move(granted)) {}

    [[nodiscard]] int releases() const { return releases_; }
    [[nodiscard]] backend_capabilities capabilities() const noexcept override {
        return {"custom", supports_fencing_, time_authority::server};
    }
    [[nodiscard]] outcome execute(const request& req, const call_limits&) override {
        if (std::holds_alternative<release_request>(req)) {
            ++releases_;
            return outcome::done();
        }
        return outcome::granted(unix_time(1h), granted_);
    }
    void async_execute(const request& req, const call_limits& limits,
                       completion handler) noexcept override {
        handler(nullptr, execute(req, limits));
    }

  private:
    bool supports_fencing_;
    fence granted_;
    std::atomic<int> releases_{0};
};

TEST(custom_engine, without_fences_is_refused_if_fences_are_part_of_the_type) {
    expect_error(error_code::invalid_argument, [] {
        const any_backend locks(std::make_shared<fenced_engine>(false, fence::from_counter(1)));
    });
}

TEST(custom_engine, that_grants_a_fence_out_of_range_gets_a_release) {
    for (const auto& bad : {fence(), *fence::parse("999999999999999")}) {
        auto store = std::make_shared<fenced_engine>(true, bad);
        const any_backend locks(store);
        expect_error(error_code::internal, [&] { (void)locks.acquire("k"); });
        EXPECT_TRUE(eventually([&] { return store->releases() == 1; }));
        expect_error(error_code::internal,
                     [&] { (void)async_acquire(locks, "k", {}, boost::asio::use_future).get(); });
        EXPECT_TRUE(eventually([&] { return store->releases() == 2; }));
    }
}

TEST(custom_engine, whose_refused_grant_cannot_be_released_is_reported) {
    std::promise<std::string> reported;
    std::string id;
    const any_backend locks(
        std::make_shared<scripted_engine>([&](const request& req, const call_limits&) {
            if (const auto* const acquisition = std::get_if<acquire_request>(&req)) {
                id = acquisition->id.to_string();
                return outcome::granted(unix_time(1h), fence());
            }
            throw lock_error(error_code::service_unavailable, "away");
        }),
        {.on_release_error = [&](const lock_error& error, const release_error_context& context) {
            EXPECT_EQ(error.code(), error_code::service_unavailable);
            EXPECT_EQ(context.key, "k");
            EXPECT_EQ(context.source, release_source::disposal);
            reported.set_value(std::string(context.lock_id));
        }});
    expect_error(error_code::internal, [&] { (void)locks.acquire("k"); });
    auto report = reported.get_future();
    ASSERT_EQ(report.wait_for(10s), std::future_status::ready);
    EXPECT_EQ(report.get(), id);
}

TEST(custom_engine, the_longest_operation_timeout_does_not_overflow_in_the_background) {
    /// Grants a fence out of range, and records how much time it gets for the release of that
    /// grant.
    class engine_with_deadline : public engine {
      public:
        [[nodiscard]] backend_capabilities capabilities() const noexcept override {
            return {"custom", true, time_authority::server};
        }
        [[nodiscard]] outcome execute(const request&, const call_limits&) override {
            return outcome::granted(unix_time(1h), fence());
        }
        void async_execute(const request&, const call_limits& limits,
                           completion handler) noexcept override {
            time_left = limits.deadline - std::chrono::steady_clock::now();
            handler(nullptr, outcome::done());
        }
        std::chrono::steady_clock::duration time_left{};
    };
    auto store = std::make_shared<engine_with_deadline>();
    const any_backend locks(store, {.operation_timeout = milliseconds::max()});
    expect_error(error_code::internal, [&] { (void)locks.acquire("k"); });
    EXPECT_GT(store->time_left, 1h);
}

TEST(lease, releasing_again_after_success_sends_no_request) {
    std::atomic<int> attempts{0};
    auto store = std::make_shared<scripted_engine>([&](const request& req, const call_limits&) {
        if (std::holds_alternative<release_request>(req)) {
            ++attempts;
            return outcome::done();
        }
        return outcome::granted(unix_time(1h), fence::from_counter(1));
    });
    {
        auto lease = any_backend(store).acquire("k");
        EXPECT_TRUE(lease->release().ok);
        EXPECT_FALSE(lease->release().ok);
    }
    EXPECT_EQ(attempts, 1);
}

TEST(lease, releasing_a_lock_that_is_gone_already_is_no_error) {
    int reports = 0;
    const memory::backend locks({},
                                {.on_release_error = [&](const auto&, const auto&) { ++reports; }});
    {
        auto lease = locks.acquire("k");
        ASSERT_TRUE(locks.release(lease->lock_id()).ok);
    }
    EXPECT_EQ(reports, 0);
}

TEST(lease, the_destructor_waits_no_longer_than_dispose_timeout) {
    auto unblock = std::make_shared<std::promise<void>>();
    auto blocked = unblock->get_future().share();
    std::promise<error_code> reported;
    auto store =
        std::make_shared<scripted_engine>([blocked](const request& req, const call_limits&) {
            if (std::holds_alternative<release_request>(req)) {
                blocked.wait();
                return outcome::done();
            }
            return outcome::granted(unix_time(1h), fence::from_counter(1));
        });
    const any_backend locks(store, {.on_release_error =
                                        [&](const lock_error& error, const release_error_context&) {
                                            reported.set_value(error.code());
                                        },
                                    .dispose_timeout = 30ms});
    const auto began = std::chrono::steady_clock::now();
    { auto lease = locks.acquire("k"); }
    const auto waited = std::chrono::steady_clock::now() - began;
    EXPECT_GE(waited, 30ms);
    EXPECT_LT(waited, 5s);
    EXPECT_EQ(reported.get_future().get(), error_code::network_timeout);
    unblock->set_value();
}

/// A store whose releases wait until the test lets them fail.
class late_failing_release {
  public:
    [[nodiscard]] any_backend backend(backend_options options) const {
        return any_backend(std::make_shared<scripted_engine>([failing = failing_, alive = alive_](
                                                                 const request& req,
                                                                 const call_limits&) -> outcome {
                               if (!std::holds_alternative<release_request>(req)) {
                                   return outcome::granted(unix_time(1h), fence::from_counter(1));
                               }
                               failing.wait();
                               throw lock_error(error_code::service_unavailable, "unplugged");
                           }),
                           std::move(options));
    }
    void fail() { fail_.set_value(); }

    /// Waits until all calls have ended. There must be no backend left.
    [[nodiscard]] bool all_ended() {
        const std::weak_ptr<int> alive = std::exchange(alive_, nullptr);
        return eventually([&] { return alive.expired(); });
    }

  private:
    std::promise<void> fail_;
    std::shared_future<void> failing_ = fail_.get_future().share();
    std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

TEST(lease, the_release_error_handler_runs_once_although_the_release_fails_after_dispose_timeout) {
    std::atomic<int> calls{0};
    late_failing_release store;
    {
        auto lease = store
                         .backend({.on_release_error = [&](const auto&, const auto&) { ++calls; },
                                   .dispose_timeout = 30ms})
                         .acquire("k");
    }
    EXPECT_EQ(calls, 1);
    store.fail();
    EXPECT_TRUE(store.all_ended());
    EXPECT_EQ(calls, 1);
}

TEST(lease, a_lock_that_ends_before_the_work_begins_reports_one_release_error) {
    /// Delays `lock()` between the acquisition and the call.
    struct slow_to_copy {
        slow_to_copy() = default;
        slow_to_copy(const slow_to_copy&) { std::this_thread::sleep_for(300ms); }
        void operator()(const loss&) const {}
    };
    std::atomic<int> calls{0};
    late_failing_release store;
    lock_options options{.ttl = 200ms};
    options.on_lost = slow_to_copy();
    options.on_release_error = [&](const auto&, const auto&) { ++calls; };
    expect_error(error_code::acquisition_timeout, [&] {
        lock(
            store.backend({.dispose_timeout = 30ms}), "k", [] {}, options);
    });
    EXPECT_EQ(calls, 1);
    store.fail();
    EXPECT_TRUE(store.all_ended());
    EXPECT_EQ(calls, 1);
}

TEST(lease, a_failure_within_dispose_timeout_is_handled_on_the_thread_of_the_destructor) {
    std::thread::id handled_on;
    {
        auto lease =
            any_backend(
                failing_release(error_code::service_unavailable, "unplugged"),
                {.on_release_error = [&](const auto&,
                                         const auto&) { handled_on = std::this_thread::get_id(); },
                 .dispose_timeout = 30s})
                .acquire("k");
    }
    EXPECT_EQ(handled_on, std::this_thread::get_id());
}

/// Answers asynchronous calls before `async_execute` returns; releases fail.
class inline_failing_release : public engine {
  public:
    [[nodiscard]] backend_capabilities capabilities() const noexcept override {
        return {"inline", true, time_authority::server};
    }
    [[nodiscard]] outcome execute(const request&, const call_limits&) override {
        return outcome::granted(unix_time(1h), fence::from_counter(1));
    }
    void async_execute(const request& req, const call_limits& limits,
                       completion handler) noexcept override {
        if (std::holds_alternative<release_request>(req)) {
            handler(std::make_exception_ptr(lock_error(error_code::internal, "no")), {});
        } else {
            handler(nullptr, execute(req, limits));
        }
    }
};

TEST(lease, a_release_handler_of_an_asynchronous_lease_runs_on_no_thread_of_the_caller_or_engine) {
    std::promise<std::thread::id> handled_on;
    const any_backend locks(
        std::make_shared<inline_failing_release>(),
        {.on_release_error = [&](const lock_error&, const release_error_context& context) {
            EXPECT_EQ(context.key, "k");
            handled_on.set_value(std::this_thread::get_id());
        }});
    { auto lease = async_acquire(locks, "k", {}, boost::asio::use_future).get(); }
    EXPECT_NE(handled_on.get_future().get(), std::this_thread::get_id());
}

TEST(lease, a_release_that_is_refused_for_its_arguments_leaves_the_lease_as_it_was) {
    const memory::backend locks;
    auto lease = locks.acquire("k", {.ttl = 600ms});
    lease->keep_alive();
    std::stop_source stopped;
    stopped.request_stop();
    expect_error(error_code::invalid_argument, [&] { (void)lease->release({.timeout = -1ms}); });
    expect_error(error_code::aborted, [&] { (void)lease->release({}, stopped.get_token()); });
    expect_error(error_code::invalid_argument, [&] {
        (void)async_release(*lease, {.timeout = -1ms}, boost::asio::use_future).get();
    });
    EXPECT_TRUE(lease->valid());
    // The lease is still renewed.
    const auto before = lease->expires_at();
    EXPECT_TRUE(eventually([&] { return lease->expires_at() > before; }));
    EXPECT_TRUE(lease->release().ok);
}

/// Calls a function when the last lease is no longer renewed. A release ends the renewals before it
/// sends its request.
class engine_with_reserved_thread : public scripted_engine {
  public:
    engine_with_reserved_thread(script answer, std::function<void()> at_end_of_renewals)
        : scripted_engine(std::move(answer)), at_end_(std::move(at_end_of_renewals)) {}

    [[nodiscard]] std::shared_ptr<const void> reserve_io_thread() override {
        return {this, [this](const void*) { at_end_(); }};
    }

  private:
    std::function<void()> at_end_;
};

TEST(lease, a_stop_request_after_the_beginning_of_a_release_is_left_to_the_engine) {
    for (const bool is_blocking : {true, false}) {
        std::stop_source stop;
        std::atomic<bool> engine_saw_the_request{false};
        const any_backend locks(std::make_shared<engine_with_reserved_thread>(
            [&](const request& req, const call_limits& limits) {
                if (std::holds_alternative<release_request>(req)) {
                    engine_saw_the_request = limits.stop.stop_requested();
                    return outcome::done();
                }
                return outcome::granted(unix_time(1h), fence::from_counter(1));
            },
            [&] { stop.request_stop(); }));
        auto lease = locks.acquire("k", {.ttl = 1h});
        lease->keep_alive();
        bool is_released = false;
        if (is_blocking) {
            is_released = lease->release({}, stop.get_token()).ok;
        } else {
            std::promise<bool> done;
            detail::access::core(*lease).start_release(
                {}, stop.get_token(), [&](std::exception_ptr failure, release_result result) {
                    done.set_value(!failure && result.ok);
                });
            is_released = done.get_future().get();
        }
        EXPECT_TRUE(is_released) << is_blocking;
        EXPECT_TRUE(engine_saw_the_request) << is_blocking;
    }
}

TEST(lease, the_longest_dispose_timeout_does_not_overflow) {
    int reports = 0;
    const memory::backend locks({},
                                {.on_release_error = [&](const auto&, const auto&) { ++reports; },
                                 .dispose_timeout = milliseconds::max()});
    { auto lease = locks.acquire("k"); }
    EXPECT_EQ(reports, 0);
    EXPECT_FALSE(locks.is_locked("k"));
}

class default_release_handler : public testing::Test {
  protected:
    void SetUp() override {
        ::unsetenv("SYNCGUARD_ENV");
        ::unsetenv("SYNCGUARD_DEBUG");
    }
    void TearDown() override { SetUp(); }

    /// Returns what a failing release prints by default. The store's message contains key and id.
    static std::string printed() {
        auto store = std::make_shared<scripted_engine>(
            [](const request& req, const call_limits&) -> outcome {
                if (const auto* release = std::get_if<release_request>(&req)) {
                    throw lock_error(error_code::service_unavailable,
                                     "cannot release private-key with " + release->id.to_string());
                }
                return outcome::granted(unix_time(1h), fence::from_counter(1));
            });
        std::string id;
        testing::internal::CaptureStderr();
        {
            auto lease = any_backend(store).acquire("private-key");
            id = lease->lock_id().to_string();
        }
        const std::string text = testing::internal::GetCapturedStderr();
        EXPECT_EQ(text.find("private-key"), std::string::npos);
        EXPECT_EQ(text.find(id), std::string::npos);
        return text;
    }
};

TEST_F(default_release_handler, prints_one_line_without_key_and_id) {
    const std::string text = printed();
    EXPECT_NE(text.find("ServiceUnavailable"), std::string::npos);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST_F(default_release_handler, is_silent_in_production_unless_debugging) {
    ::setenv("SYNCGUARD_ENV", "production", 1);
    EXPECT_EQ(printed(), "");
    ::setenv("SYNCGUARD_DEBUG", "true", 1);
    EXPECT_NE(printed(), "");
}

}  // namespace
}  // namespace syncguard::test
