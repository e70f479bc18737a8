/// Renewal by one scheduler, and the reporting of losses, over scripted stores.
#include "support/eventually.hpp"
#include "support/expect_error.hpp"
#include "support/loss_recorder.hpp"
#include "support/scripted_extensions.hpp"

#include <syncguard/async.hpp>
#include <syncguard/lock.hpp>
#include <syncguard/memory.hpp>

#include <boost/asio/use_future.hpp>

#include <algorithm>
#include <atomic>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

using namespace std::chrono_literals;

outcome go_on(const extend_request&) {
    return outcome::extended(unix_time(1h));
}

outcome gone(const extend_request&) {
    return outcome::failed(failure_reason::not_found);
}

outcome unreachable(const extend_request&) {
    throw lock_error(error_code::service_unavailable, "unplugged");
}

TEST(keep_alive, renews_beyond_the_ttl_with_that_of_the_acquisition) {
    std::atomic<bool> same_ttl{true};
    scripted_extensions store([&](const extend_request& extend) {
        if (extend.ttl != 2s) same_ttl = false;
        return outcome::extended(unix_time(1h));
    });
    loss_recorder losses;
    auto lease = store.acquire(2s);
    lease.on_lost(losses.handler());
    lease.keep_alive();
    EXPECT_TRUE(eventually([&] { return store.extends() >= 4; }));
    EXPECT_TRUE(lease.valid());
    EXPECT_TRUE(same_ttl);
    EXPECT_FALSE(lease.renewal_failure());
    EXPECT_FALSE(lease.stop_token().stop_requested());
    EXPECT_FALSE(losses.any());
}

TEST(keep_alive, can_renew_with_another_ttl) {
    std::atomic<bool> long_one{false};
    scripted_extensions store([&](const extend_request& extend) {
        if (extend.ttl == 1h) long_one = true;
        return outcome::extended(unix_time(1h));
    });
    auto lease = store.acquire(3s);
    lease.keep_alive({.ttl = 1h});
    EXPECT_TRUE(eventually([&] { return lease.remaining() > 59min; }));
    EXPECT_TRUE(long_one);
    expect_error(error_code::invalid_argument, [&] { lease.keep_alive({.ttl = -1ms}); });
    expect_error(error_code::invalid_argument, [&] { lease.keep_alive({.ttl = max_ttl + 1ms}); });
}

TEST(keep_alive, retries_a_failed_renewal_until_it_succeeds) {
    std::atomic<bool> plugged{false};
    scripted_extensions store([&](const extend_request& extend) {
        return plugged ? go_on(extend) : unreachable(extend);
    });
    loss_recorder losses;
    auto lease = store.acquire(5s);
    lease.on_lost(losses.handler());
    lease.keep_alive({.ttl = 60s});
    EXPECT_TRUE(eventually([&] { return lease.renewal_failure() != nullptr; }));
    EXPECT_EQ(text_of(lease.renewal_failure()), "unplugged");
    plugged = true;
    EXPECT_TRUE(eventually([&] { return lease.remaining() > 5s; }));
    EXPECT_TRUE(eventually([&] { return lease.renewal_failure() == nullptr; }));
    EXPECT_TRUE(lease.valid());
    EXPECT_FALSE(losses.any());
}

TEST(keep_alive, ends_with_the_lease) {
    scripted_extensions store(go_on);
    loss_recorder losses;
    {
        auto lease = store.acquire(3s);
        lease.on_lost(losses.handler());
        lease.keep_alive();
        EXPECT_TRUE(eventually([&] { return store.extends() >= 1; }));
        EXPECT_TRUE(lease.release().ok);
        const int before = store.extends();
        // When this other lease has expired, a renewal of the first would have been due.
        auto other = store.acquire(2s);
        loss_recorder end;
        other.on_lost(end.handler());
        EXPECT_TRUE(eventually([&] { return end.any(); }));
        EXPECT_EQ(store.extends(), before);
    }
    EXPECT_FALSE(losses.any());
}

TEST(keep_alive, ends_when_the_lease_is_detached) {
    scripted_extensions store(go_on);
    loss_recorder losses;
    auto lease = store.acquire(3s);
    lease.on_lost(losses.handler());
    lease.keep_alive();
    EXPECT_TRUE(eventually([&] { return store.extends() >= 1; }));
    lease.detach();
    const int before = store.extends();
    loss_recorder end;
    auto other = store.acquire(2s);
    other.on_lost(end.handler());
    EXPECT_TRUE(eventually([&] { return end.any(); }));
    // One renewal may have been under way.
    EXPECT_LE(store.extends(), before + 1);
    EXPECT_FALSE(losses.any());
}

TEST(keep_alive, does_nothing_on_a_lease_that_is_no_longer_held) {
    scripted_extensions store(go_on);
    loss_recorder losses;
    auto lease = store.acquire(2s);
    EXPECT_TRUE(lease.release().ok);
    lease.keep_alive({.ttl = 1h});
    lease.on_lost(losses.handler());
    EXPECT_FALSE(lease.stop_token().stop_requested());
    EXPECT_FALSE(lease.valid());
    // The renewal of this lease is due later than that of the first.
    auto other = store.acquire(2s);
    other.keep_alive({.ttl = 1h});
    EXPECT_TRUE(eventually([&] { return store.extends() == 1; }));
    EXPECT_FALSE(losses.any());
}

TEST(keep_alive, of_a_thousand_leases_needs_no_thread_for_each) {
    const auto threads = [] {
        return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
    };
    const memory::backend locks;
    auto first = locks.acquire("first");
    first->keep_alive();
    const auto before = threads();
    std::vector<decltype(locks.acquire(""))> held;
    std::atomic<int> lost{0};
    for (int i = 0; i < 1000; ++i) {
        held.push_back(locks.acquire(std::to_string(i), {.ttl = 3s}));
        held.back()->on_lost([&](const loss&) { ++lost; });
        held.back()->keep_alive();
    }
    const auto acquired = lease_clock::now();
    EXPECT_EQ(threads(), before);
    EXPECT_TRUE(eventually([&] { return lease_clock::now() > acquired + 4s; }));
    for (auto& each : held)
        EXPECT_TRUE(each->valid());
    EXPECT_EQ(lost, 0);
    EXPECT_EQ(threads(), before);
}

TEST(keep_alive, of_a_lease_from_an_asynchronous_call_is_the_same) {
    scripted_extensions store(go_on);
    auto acquired = async_acquire(store.locks(), "k", {.ttl = 2s}, boost::asio::use_future).get();
    ASSERT_TRUE(acquired);
    acquired->keep_alive();
    EXPECT_TRUE(eventually([&] { return store.extends() >= 4; }));
    EXPECT_TRUE(acquired->valid());
    EXPECT_FALSE(acquired->stop_token().stop_requested());
}

TEST(keep_alive, continues_while_an_extension_hangs) {
    std::promise<void> answer;
    auto answered = answer.get_future().share();
    std::atomic<bool> hangs{false};
    scripted_extensions store([&, answered](const extend_request& extend) {
        if (extend.ttl == 1900ms) {
            hangs = true;
            answered.wait();
        }
        return go_on(extend);
    });
    loss_recorder losses;
    auto lease = store.acquire(2s);
    lease.on_lost(losses.handler());
    lease.keep_alive();
    auto hanging = std::async(std::launch::async, [&] { return lease.extend({.ttl = 1900ms}); });
    EXPECT_TRUE(eventually([&] { return hangs.load(); }));
    const auto began = lease_clock::now();
    EXPECT_TRUE(eventually([&] { return lease_clock::now() > began + 5s || losses.any(); }));
    EXPECT_FALSE(losses.any());
    EXPECT_TRUE(lease.valid());
    // One renewal for each third of the TTL, not one for each round trip.
    EXPECT_GE(store.extends(), 6);
    EXPECT_LE(store.extends(), 15);
    answer.set_value();
    EXPECT_TRUE(hanging.get().ok);
}

TEST(loss, is_reported_once_when_the_deadline_passes_with_the_last_failure_as_its_cause) {
    scripted_extensions store(unreachable);
    loss_recorder losses;
    auto lease = store.acquire(300ms);
    lease.on_lost(losses.handler());
    lease.keep_alive();
    const auto token = lease.stop_token();
    EXPECT_TRUE(eventually([&] { return losses.any() && token.stop_requested(); }));
    EXPECT_FALSE(lease.valid());
    EXPECT_EQ(losses.first().event.reason, loss_reason::expired);
    EXPECT_EQ(text_of(losses.first().event.cause), "unplugged");
    // The store may still have the lock.
    EXPECT_TRUE(lease.release().ok);
    EXPECT_EQ(losses.losses().size(), 1U);
}

TEST(loss, is_reported_without_renewals_too) {
    scripted_extensions store(go_on);
    loss_recorder losses;
    auto lease = store.acquire(50ms);
    lease.on_lost(losses.handler());
    EXPECT_TRUE(eventually([&] { return losses.any(); }));
    EXPECT_EQ(losses.first().event.reason, loss_reason::expired);
    EXPECT_FALSE(losses.first().event.cause);
    EXPECT_EQ(store.extends(), 0);
}

TEST(loss, is_reported_at_once_when_a_renewal_finds_the_lock_gone) {
    scripted_extensions store(gone);
    loss_recorder losses;
    auto lease = store.acquire(3s);
    lease.on_lost(losses.handler());
    auto token = lease.stop_token();
    lease.keep_alive({.ttl = 1h});
    EXPECT_TRUE(eventually([&] { return losses.any() && token.stop_requested(); }, 15s));
    EXPECT_EQ(losses.first().event.reason, loss_reason::not_held);
    EXPECT_FALSE(lease.valid());
    EXPECT_FALSE(lease.release().ok);
    EXPECT_EQ(store.releases(), 0);
    EXPECT_EQ(store.extends(), 1);
}

TEST(loss, found_by_a_manual_extension_is_reported_too) {
    scripted_extensions store(gone);
    loss_recorder losses;
    auto lease = store.acquire(30s);
    lease.on_lost(losses.handler());
    EXPECT_FALSE(lease.extend().ok);
    EXPECT_TRUE(eventually([&] { return losses.any(); }, 15s));
    EXPECT_EQ(losses.first().event.reason, loss_reason::not_held);
}

TEST(loss, that_happened_before_is_reported_at_once) {
    for (const bool found_gone : {false, true}) {
        scripted_extensions store(gone);
        auto lease = store.acquire(found_gone ? 30s : 20ms);
        if (found_gone) {
            EXPECT_FALSE(lease.extend().ok);
        }
        EXPECT_TRUE(eventually([&] { return !lease.valid(); }));
        loss_recorder first;
        lease.on_lost(first.handler());
        EXPECT_TRUE(eventually([&] { return first.any(); }));
        EXPECT_EQ(first.first().event.reason,
                  found_gone ? loss_reason::not_held : loss_reason::expired);
        EXPECT_TRUE(lease.stop_token().stop_requested());
        // A second handler is called as well.
        loss_recorder second;
        lease.on_lost(second.handler());
        EXPECT_TRUE(eventually([&] { return second.any(); }));
        EXPECT_EQ(first.losses().size(), 1U);
    }
}

TEST(loss, uses_the_deadline_set_by_a_manual_extension) {
    scripted_extensions store(go_on);
    loss_recorder losses;
    auto longer = store.acquire(200ms);
    longer.on_lost(losses.handler());
    ASSERT_TRUE(longer.extend({.ttl = 1h}).ok);
    loss_recorder of_shorter;
    auto shorter = store.acquire(1h);
    shorter.on_lost(of_shorter.handler());
    ASSERT_TRUE(shorter.extend({.ttl = 400ms}).ok);
    EXPECT_TRUE(eventually([&] { return of_shorter.any(); }));
    EXPECT_FALSE(losses.any());
    EXPECT_TRUE(longer.valid());
}

TEST(loss, is_final_even_if_an_extension_succeeds_late) {
    std::promise<void> under_way;
    std::promise<void> answer;
    auto answered = answer.get_future().share();
    scripted_extensions store([&, answered](const extend_request&) {
        under_way.set_value();
        answered.wait();
        return outcome::extended(unix_time(1h));
    });
    loss_recorder losses;
    auto lease = store.acquire(100ms);
    lease.on_lost(losses.handler());
    auto extending = std::async(std::launch::async, [&] { return lease.extend({.ttl = 1h}).ok; });
    under_way.get_future().get();
    EXPECT_TRUE(eventually([&] { return losses.any(); }));
    EXPECT_FALSE(lease.valid());
    answer.set_value();
    EXPECT_FALSE(extending.get());
    EXPECT_FALSE(lease.valid());
    EXPECT_EQ(lease.remaining(), 0ms);
    EXPECT_EQ(losses.losses().size(), 1U);
    EXPECT_TRUE(lease.release().ok);
}

TEST(loss, is_not_reported_for_a_lease_that_is_released_while_a_renewal_is_under_way) {
    for (const bool finds_it_gone : {false, true}) {
        auto under_way = std::make_shared<std::promise<void>>();
        auto answer = std::make_shared<std::promise<void>>();
        auto answered = answer->get_future().share();
        std::atomic<bool> first{true};
        scripted_extensions store([&, answered](const extend_request& extend) {
            if (first.exchange(false)) under_way->set_value();
            answered.wait();
            return finds_it_gone ? gone(extend) : unreachable(extend);
        });
        loss_recorder losses;
        auto lease = store.acquire(3s);
        lease.on_lost(losses.handler());
        lease.keep_alive({.ttl = 1h});
        under_way->get_future().get();
        EXPECT_TRUE(lease.release().ok);
        answer->set_value();
        loss_recorder end;
        auto other = store.acquire(50ms);
        other.on_lost(end.handler());
        EXPECT_TRUE(eventually([&] { return end.any(); }));
        EXPECT_FALSE(losses.any());
        EXPECT_EQ(store.extends(), 1);
    }
}

TEST(loss, handlers_that_throw_do_not_affect_other_handlers) {
    scripted_extensions store(go_on);
    auto bad = store.acquire(20ms);
    auto good = store.acquire(100ms);
    bad.on_lost([](const loss&) { throw std::runtime_error("handlers may throw"); });
    loss_recorder losses;
    good.on_lost(losses.handler());
    EXPECT_TRUE(eventually([&] { return losses.any(); }));
}

TEST(loss, a_handler_that_blocks_delays_neither_renewals_nor_the_losses_of_others) {
    scripted_extensions store(go_on);
    std::promise<void> release;
    auto released = release.get_future().share();
    std::promise<void> blocked;
    auto stuck = store.acquire(20ms);
    stuck.on_lost([&, released](const loss&) {
        blocked.set_value();
        released.wait();
    });
    blocked.get_future().get();
    auto renewed = store.acquire(2s);
    renewed.keep_alive();
    auto expired = store.acquire(20ms);
    loss_recorder losses;
    expired.on_lost(losses.handler());
    EXPECT_TRUE(eventually([&] { return losses.any(); }));
    EXPECT_TRUE(eventually([&] { return store.extends() >= 4; }));
    EXPECT_TRUE(renewed.valid());
    release.set_value();
}

TEST(loss, handlers_and_stop_tokens_do_not_wait_for_handlers_of_other_leases) {
    scripted_extensions store(go_on);
    constexpr int many = 20;
    std::promise<void> release;
    auto released = release.get_future().share();
    std::atomic<int> running{0};
    std::vector<lease<any_capabilities>> lost;
    std::vector<std::stop_token> tokens;
    for (int i = 0; i < many; ++i) {
        lost.push_back(store.acquire(20ms));
        tokens.push_back(lost.back().stop_token());
        lost.back().on_lost([&, released](const loss&) {
            ++running;
            released.wait();
        });
    }
    EXPECT_TRUE(eventually(
        [&] {
            return std::all_of(tokens.begin(), tokens.end(),
                               [](const auto& token) { return token.stop_requested(); });
        },
        5s));
    EXPECT_TRUE(eventually([&] { return running == many; }, 5s));
    release.set_value();
}

TEST(loss, stop_callbacks_that_block_do_not_delay_reports_of_other_losses) {
    scripted_extensions store(go_on);
    std::promise<void> release;
    auto released = release.get_future().share();
    const auto block = [released] { released.wait(); };
    std::vector<lease<any_capabilities>> lost;
    std::deque<std::stop_callback<decltype(block)>> callbacks;
    for (int i = 0; i < 8; ++i) {
        lost.push_back(store.acquire(20ms));
        callbacks.emplace_back(lost.back().stop_token(), block);
    }
    auto other = store.acquire(60ms);
    loss_recorder losses;
    other.on_lost(losses.handler());
    EXPECT_TRUE(eventually([&] { return losses.any(); }, 5s));
    release.set_value();
}

/// Blocks the thread that schedules renewals, until leases are overdue.
class stalled_schedule {
  public:
    /// Blocks the thread until `deadline` has passed.
    explicit stalled_schedule(lease_clock::time_point deadline)
        : stalling_(any_backend(std::make_shared<stalling_engine>(deadline))
                        .acquire("k", {.ttl = 300ms})) {
        stalling_->keep_alive();
    }

  private:
    class stalling_engine : public engine {
      public:
        explicit stalling_engine(lease_clock::time_point until) : until_(until) {}
        [[nodiscard]] backend_capabilities capabilities() const noexcept override {
            return {"stalling", true, time_authority::server};
        }
        [[nodiscard]] outcome execute(const request&, const call_limits&) override {
            return outcome::granted(unix_time(1h), fence::from_counter(1));
        }
        void async_execute(const request& req, const call_limits& limits,
                           completion handler) noexcept override {
            EXPECT_TRUE(eventually([&] { return lease_clock::now() > until_; }));
            handler(nullptr, execute(req, limits));
        }

      private:
        lease_clock::time_point until_;
    };

    acquire_result<any_capabilities> stalling_;
};

TEST(loss, requests_all_stop_tokens_before_any_handler_runs) {
    scripted_extensions store(go_on);
    std::vector<lease<any_capabilities>> lost;
    std::vector<std::stop_token> tokens;
    std::atomic<int> early{0};
    std::atomic<int> handled{0};
    for (int i = 0; i < 50; ++i) {
        lost.push_back(store.acquire(400ms));
        tokens.push_back(lost.back().stop_token());
    }
    const stalled_schedule stalled(lease_clock::now() + 450ms);
    for (auto& each : lost) {
        each.on_lost([&](const loss&) {
            const auto requested = [](const auto& token) { return token.stop_requested(); };
            if (!std::all_of(tokens.begin(), tokens.end(), requested)) ++early;
            ++handled;
        });
    }
    EXPECT_TRUE(eventually([&] { return handled == 50; }));
    EXPECT_EQ(early, 0);
    lost.clear();
}

/// Two leases that are lost together. The handler of the first destroys the second while holding a
/// mutex that the handler of the second waits for.
struct entangled_pair {
    explicit entangled_pair(const scripted_extensions& store)
        : first(store.acquire(50ms)), second(store.acquire(50ms)) {
        second->on_lost([this](const loss&) {
            second_runs = true;
            { const std::lock_guard guard(mutex); }
            ++ended;
        });
        first->on_lost([this](const loss&) {
            {
                const std::lock_guard guard(mutex);
                if (!eventually([&] { return second_runs.load(); })) return;
                second.reset();
            }
            ++ended;
        });
    }
    std::mutex mutex;
    std::atomic<bool> second_runs{false};
    std::atomic<int> ended{0};
    std::optional<lease<any_capabilities>> first;
    std::optional<lease<any_capabilities>> second;
};

TEST(loss, handlers_that_destroy_each_others_leases_do_not_wait_for_each_other) {
    auto store = std::make_unique<scripted_extensions>(go_on);
    std::vector<std::unique_ptr<entangled_pair>> pairs;
    for (int i = 0; i < 3; ++i)
        pairs.push_back(std::make_unique<entangled_pair>(*store));
    auto other = std::make_unique<lease<any_capabilities>>(store->acquire(50ms));
    const auto token = other->stop_token();
    const bool is_told = eventually([&] { return token.stop_requested(); }, 5s);
    const bool all_ended = eventually(
        [&] {
            return std::all_of(pairs.begin(), pairs.end(),
                               [](const auto& each) { return each->ended == 2; });
        },
        5s);
    EXPECT_TRUE(is_told);
    EXPECT_TRUE(all_ended);
    if (all_ended) return;
    // The threads of these handlers wait for ever and use these objects: leak them.
    for (auto& each : pairs)
        (void)each.release();
    (void)other.release();
    (void)store.release();
}

TEST(loss, that_was_not_reported_before_the_end_of_the_lease_is_not_reported_after_it) {
    scripted_extensions store(gone);
    std::atomic<int> late{0};
    for (int i = 0; i < 300; ++i) {
        auto is_destroyed = std::make_shared<std::atomic<bool>>(false);
        {
            auto lost = store.acquire(30s);
            lost.on_lost([is_destroyed, &late](const loss&) {
                if (*is_destroyed) ++late;
            });
            EXPECT_FALSE(lost.extend().ok);
        }
        *is_destroyed = true;
    }
    EXPECT_EQ(late, 0);
}

/// Grants everything. Answers asynchronous calls before `async_execute` returns.
class inline_engine : public engine {
  public:
    struct observer {
        std::function<void()> on_renewal = [] {};
        std::function<void()> on_destruction = [] {};
    };
    explicit inline_engine(observer calls) : observer_(std::move(calls)) {}
    inline_engine(const inline_engine&) = delete;
    inline_engine& operator=(const inline_engine&) = delete;
    ~inline_engine() override { observer_.on_destruction(); }

    [[nodiscard]] backend_capabilities capabilities() const noexcept override {
        return {"inline", true, time_authority::server};
    }
    [[nodiscard]] outcome execute(const request&, const call_limits&) override {
        return outcome::granted(unix_time(1h), fence::from_counter(1));
    }
    void async_execute(const request& req, const call_limits& limits,
                       completion handler) noexcept override {
        if (std::holds_alternative<extend_request>(req)) observer_.on_renewal();
        handler(nullptr, execute(req, limits));
    }

  private:
    observer observer_;
};

TEST(keep_alive, never_destroys_a_store_on_the_thread_that_schedules_renewals) {
    std::promise<std::thread::id> destroyed_on;
    std::thread::id scheduler;
    auto owned =
        any_backend(std::make_shared<inline_engine>(inline_engine::observer{.on_destruction = [&] {
            destroyed_on.set_value(std::this_thread::get_id());
        }})).acquire("k", {.ttl = 900ms});
    std::atomic<bool> destroyed{false};
    // Renewed later in the same round of the scheduler.
    auto second =
        any_backend(std::make_shared<inline_engine>(inline_engine::observer{.on_renewal = [&] {
            if (destroyed.exchange(true)) return;
            scheduler = std::this_thread::get_id();
            owned = {};
        }})).acquire("k", {.ttl = 1000ms});
    // Both renewals are due when the scheduler continues.
    const stalled_schedule stalled(lease_clock::now() + 400ms);
    owned->keep_alive();
    second->keep_alive();
    auto destroyer = destroyed_on.get_future();
    ASSERT_EQ(destroyer.wait_for(10s), std::future_status::ready);
    EXPECT_NE(destroyer.get(), scheduler);
}

TEST(loss, destruction_waits_for_a_handler_that_runs) {
    scripted_extensions store(go_on);
    std::promise<void> running;
    std::promise<void> go;
    std::atomic<bool> finished{false};
    std::optional lease(store.acquire(20ms));
    lease->on_lost([&](const loss&) {
        running.set_value();
        go.get_future().wait();
        finished = true;
    });
    running.get_future().get();
    auto destroying = std::async(std::launch::async, [&] {
        lease.reset();
        return finished.load();
    });
    EXPECT_EQ(destroying.wait_for(50ms), std::future_status::timeout);
    go.set_value();
    EXPECT_TRUE(destroying.get());
}

TEST(loss, a_handler_may_release_or_destroy_the_lease) {
    scripted_extensions store(go_on);
    auto lease =
        std::make_shared<std::optional<syncguard::lease<any_capabilities>>>(store.acquire(20ms));
    std::promise<bool> done;
    lease->value().on_lost([&done, lease](const loss&) {
        const bool released = lease->value().release().ok;
        lease->reset();
        done.set_value(released);
    });
    EXPECT_TRUE(done.get_future().get());
}

TEST(loss, a_handler_is_destroyed_with_its_lease) {
    scripted_extensions store(go_on);
    auto held = std::make_shared<int>(0);
    {
        auto lease = store.acquire(30s);
        lease.on_lost([held](const loss&) {});
        EXPECT_EQ(held.use_count(), 2);
        EXPECT_TRUE(lease.release().ok);
        EXPECT_EQ(held.use_count(), 1);
    }
}

TEST(loss, wakes_threads_that_wait_with_the_stop_token) {
    scripted_extensions store(gone);
    auto lease = store.acquire(30s);
    std::promise<void> woken;
    const std::stop_callback wake(lease.stop_token(), [&] { woken.set_value(); });
    lease.keep_alive({.ttl = 1h});
    EXPECT_EQ(woken.get_future().wait_for(15s), std::future_status::ready);
}

}  // namespace
}  // namespace syncguard::test
