/// Redis behind a bad network: cut, slow, silent or unreachable.
#include "redis/redis_fault.hpp"
#include "support/eventually.hpp"
#include "support/expect_error.hpp"

#include <syncguard/async.hpp>
#include <syncguard/lock.hpp>

#include <boost/asio/use_future.hpp>
#include <sys/socket.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace syncguard::test {
namespace {

// Cut connections.

using cut = std::tuple<api_form_kind, direction, closing>;

class redis_cut : public testing::TestWithParam<cut> {
  protected:
    /// Cuts the connection after 0, 1, 2, ... bytes that `action` sends or receives, until it
    /// passes without a cut. After each cut the client must work normally. Resets take the proxy
    /// longer, so they are made at fewer places.
    template <class Action>
    void cut_at_every_byte_of(Action action) {
        const auto [kind, way, closing_kind] = GetParam();
        std::uint64_t bytes = 0;
        for (;; bytes += closing_kind == closing::reset ? 17 : 1) {
            // A cut after the last byte may hit this call instead.
            ASSERT_TRUE(eventually([&] {
                return survives([&] { (void)form_->is_locked(locks_, "warm-up", {}); });
            })) << bytes;
            const auto cuts = proxy_.cuts();
            proxy_.arm_cut(way, bytes, closing_kind);
            const auto taken = time_of([&] { action(bytes); });
            proxy_.disarm_cut();
            EXPECT_LT(taken, operation_timeout + margin) << bytes;
            if (proxy_.cuts() == cuts) break;
            ASSERT_LT(bytes, 2000U);
        }
        EXPECT_GT(bytes, 8U);
    }

    /// Whether `action` succeeded. If not, its error must be one that a cut causes.
    template <class Action>
    bool survives(Action action) {
        try {
            action();
            return true;
        } catch (const lock_error& failure) {
            EXPECT_EQ(failure.code(), error_code::service_unavailable) << failure.what();
            EXPECT_NE(std::string(failure.what()).find(std::to_string(proxy_.port())),
                      std::string::npos)
                << failure.what();
            return false;
        }
    }

    static constexpr milliseconds operation_timeout{2'000};
    redis_server server_;
    fault_proxy proxy_{server_.port()};
    std::unique_ptr<api_form> form_ = std::get<0>(GetParam()).make();
    any_backend locks_ =
        redis::backend({.host = "127.0.0.1", .port = proxy_.port()}, quiet(operation_timeout));
};

TEST_P(redis_cut, an_acquisition_fails_or_succeeds_and_the_next_one_gets_the_lock) {
    std::vector<any_result> held;
    cut_at_every_byte_of([&](std::uint64_t bytes) {
        const std::string key = "key:" + std::to_string(bytes);
        any_result first;
        if (survives([&] { first = form_->acquire(locks_, key, {.ttl = 60s}, {}); })) {
            EXPECT_TRUE(first);
            held.push_back(std::move(first));
            return;
        }
        held.emplace_back();
        // The next owner need not wait for the TTL, and the background release does not remove its
        // lock.
        EXPECT_TRUE(eventually(
            [&] {
                survives([&] { held.back() = form_->acquire(locks_, key, {.ttl = 60s}, {}); });
                return held.back().ok();
            },
            cleanup_time))
            << bytes;
    });
    for (auto& each : held) {
        EXPECT_TRUE(each->extend());
        EXPECT_TRUE(each->release());
    }
    EXPECT_EQ(locks_in(server_), 0U);
}

TEST_P(redis_cut, a_release_takes_effect_at_the_latest_when_it_is_repeated) {
    cut_at_every_byte_of([&](std::uint64_t bytes) {
        proxy_.disarm_cut();
        const std::string key = "key:" + std::to_string(bytes);
        const auto id = locks_.acquire(key, {.ttl = 60s})->detach();
        proxy_.arm_cut(std::get<1>(GetParam()), bytes, std::get<2>(GetParam()));
        release_result result;
        if (survives([&] { result = form_->release(locks_, id, {}); })) {
            EXPECT_TRUE(result);
            EXPECT_FALSE(holds_lock(server_, key)) << bytes;
            return;
        }
        const bool unheard = !holds_lock(server_, key);
        EXPECT_EQ(form_->release(locks_, id, {}).ok, !unheard) << bytes;
        EXPECT_FALSE(holds_lock(server_, key)) << bytes;
    });
}

TEST_P(redis_cut, after_a_failed_extension_the_holder_keeps_the_lock) {
    auto lease = locks_.acquire("k", {.ttl = 60s});
    ASSERT_TRUE(lease);
    cut_at_every_byte_of([&](std::uint64_t bytes) {
        if (survives([&] { EXPECT_TRUE(form_->extend(*lease, {.ttl = 60s})) << bytes; })) return;
        EXPECT_TRUE(lease->valid()) << bytes;
        EXPECT_TRUE(form_->extend(*lease, {.ttl = 60s})) << bytes;
    });
    EXPECT_TRUE(lease->release());
}

TEST_P(redis_cut, a_lookup_is_correct_or_fails) {
    auto lease = locks_.acquire("k", {.ttl = 60s});
    ASSERT_TRUE(lease);
    cut_at_every_byte_of([&](std::uint64_t bytes) {
        survives([&] {
            const auto info = form_->lookup(locks_, key_lookup{"k"}, {});
            ASSERT_TRUE(info) << bytes;
            EXPECT_EQ(info->fence, lease->fence());
        });
    });
}

TEST_P(redis_cut, a_handshake_that_is_cut_fails_the_call_and_not_the_client) {
    std::uint64_t bytes = 0;
    for (;; ++bytes) {
        const auto cuts = proxy_.cuts();
        const any_backend fresh =
            redis::backend({.host = "127.0.0.1", .port = proxy_.port()}, quiet(operation_timeout));
        proxy_.arm_cut(std::get<1>(GetParam()), bytes, std::get<2>(GetParam()));
        const bool passed = survives([&] { (void)form_->is_locked(fresh, "k", {}); });
        proxy_.disarm_cut();
        EXPECT_FALSE(form_->is_locked(fresh, "k", {})) << bytes;
        if (passed && proxy_.cuts() == cuts) break;
        // Larger steps: a failed greeting is not repeated at once, and the script after it is long.
        bytes += bytes > 300 ? 610 : 22;
        ASSERT_LT(bytes, 20'000U);
    }
    EXPECT_GT(bytes, 30U);
}

INSTANTIATE_TEST_SUITE_P(
    all, redis_cut,
    testing::Combine(blocking_and_async(),
                     testing::Values(direction::to_server, direction::to_client),
                     testing::Values(closing::orderly, closing::reset)),
    [](const auto& test) {
        return std::get<0>(test.param).name +
               (std::get<1>(test.param) == direction::to_server ? "_request" : "_reply") +
               (std::get<2>(test.param) == closing::orderly ? "_closed" : "_reset");
    });

// Slow and silent connections.

class redis_silence : public redis_fault {};

TEST_P(redis_silence, bytes_may_arrive_one_by_one_and_late) {
    const auto locks = open();
    proxy_.slice(direction::to_client);
    proxy_.slice(direction::to_server);
    proxy_.delay(direction::to_client, 20ms);
    for (int i = 0; i < 3; ++i) {
        auto lease = form_->acquire(locks, "k", {.ttl = 60s}, {});
        ASSERT_TRUE(lease);
        EXPECT_TRUE(form_->lookup(locks, key_lookup{"k"}, {}));
        EXPECT_TRUE(form_->extend(*lease, {.ttl = 60s}));
        EXPECT_TRUE(form_->release(*lease));
    }
    EXPECT_EQ(proxy_.connections(), 1U);
}

TEST_P(redis_silence, a_deadline_bounds_the_whole_reply_not_each_read) {
    const auto locks = open();
    EXPECT_FALSE(form_->is_locked(locks, "warm-up", {}));
    // Each byte arrives well within the deadline; all of them take seconds.
    proxy_.slice(direction::to_client, true, 60ms);
    const auto taken = time_of([&] {
        expect_error(error_code::network_timeout,
                     [&] { (void)form_->acquire(locks, "k", {.ttl = 60s, .timeout = 300ms}, {}); });
    });
    EXPECT_GE(taken, 300ms);
    EXPECT_LT(taken, 300ms + margin);
    proxy_.slice(direction::to_client, false);
    EXPECT_TRUE(eventually([&] { return !holds_lock(server_, "k"); }, cleanup_time));
}

TEST_P(redis_silence, a_call_ends_at_its_deadline_and_a_late_grant_is_released) {
    const auto locks = open();
    EXPECT_FALSE(form_->is_locked(locks, "warm-up", {}));
    for (const bool stop_the_server : {true, false}) {
        stop_the_server ? server_.pause() : proxy_.stall(direction::to_client);
        const auto taken = time_of([&] {
            const auto failure = expect_error(error_code::network_timeout, [&] {
                (void)form_->acquire(locks, "k", {.ttl = 60s, .timeout = 200ms}, {});
            });
            EXPECT_NE(std::string(failure->what()).find("127.0.0.1:"), std::string::npos);
        });
        EXPECT_GE(taken, 200ms);
        EXPECT_LT(taken, 200ms + margin);
        stop_the_server ? server_.resume() : proxy_.resume(direction::to_client);
        any_result next;
        EXPECT_TRUE(eventually(
            [&] {
                next = form_->acquire(locks, "k", {.ttl = 60s}, {});
                return next.ok();
            },
            cleanup_time));
        EXPECT_TRUE(form_->release(*next));
        EXPECT_TRUE(eventually([&] { return clients_of(server_) == 1; }, cleanup_time));
    }
}

TEST_P(redis_silence, an_acquisition_whose_reply_never_comes_is_released_without_it) {
    const auto locks = open();
    EXPECT_FALSE(form_->is_locked(locks, "warm-up", {}));
    // The server receives the request and grants; its answer is dropped, and the connection stays
    // open.
    proxy_.discard(direction::to_client);
    expect_error(error_code::network_timeout,
                 [&] { (void)form_->acquire(locks, "k", {.ttl = 60s, .timeout = 200ms}, {}); });
    EXPECT_TRUE(holds_lock(server_, "k"));
    proxy_.discard(direction::to_client, false);
    EXPECT_TRUE(eventually([&] { return !holds_lock(server_, "k"); }, cleanup_time));
}

/// A tunnel may deliver the request of a broken connection long after its client was reset.
TEST_P(redis_silence, an_acquisition_is_released_however_late_it_is_delivered) {
    const auto locks = open();
    EXPECT_FALSE(form_->is_locked(locks, "warm-up", {}));
    proxy_.arm_cut(direction::to_server, 0, closing::reset);
    const auto failure = expect_error(error_code::service_unavailable,
                                      [&] { (void)form_->acquire(locks, "k", {.ttl = 60s}, {}); });
    ASSERT_TRUE(failure);
    // The server executes the acquisition only after several releases have found nothing.
    const auto delivered_at = steady_clock::now() + 2500ms;
    ASSERT_TRUE(eventually([&] { return steady_clock::now() > delivered_at; }));
    const std::string id(failure->lock_id());
    server_.command({"SET", "syncguard:id:" + id, "syncguard:k", "PX", "60000"});
    server_.command({"SET", "syncguard:k",
                     R"({"lockId":")" + id +
                         R"(","expiresAtMs":99999999999999,"acquiredAtMs":1,"key":"k",)"
                         R"("fence":"000000000000001"})",
                     "PX", "60000"});
    EXPECT_TRUE(eventually([&] { return !holds_lock(server_, "k"); }, 20s));
}

TEST_P(redis_silence, the_reply_of_an_abandoned_call_is_not_given_to_the_next) {
    const auto locks = open();
    auto other = locks.acquire("held", {.ttl = 60s});
    ASSERT_TRUE(other);
    for (int i = 0; i < 10; ++i) {
        proxy_.stall(direction::to_client);
        // The late answer is "free".
        expect_error(error_code::network_timeout,
                     [&] { (void)locks.is_locked("free", {.timeout = 20ms}); });
        std::thread later([&] { proxy_.resume(direction::to_client); });
        EXPECT_TRUE(form_->is_locked(locks, "held", {}));
        later.join();
        EXPECT_FALSE(form_->is_locked(locks, "free", {}));
    }
}

TEST_P(redis_silence, a_call_with_more_time_still_gets_its_reply_when_another_is_abandoned) {
    const auto locks = open();
    auto held = locks.acquire("held", {.ttl = 60s});
    ASSERT_TRUE(held);
    proxy_.stall(direction::to_client);
    std::vector<std::future<bool>> patient;
    std::vector<std::future<void>> hasty;
    for (int i = 0; i < 8; ++i) {
        const auto own_form = std::make_shared<std::unique_ptr<api_form>>(GetParam().make());
        patient.push_back(std::async(std::launch::async, [&locks, own_form, i] {
            return (*own_form)->is_locked(locks, i % 2 == 0 ? "held" : "free", {});
        }));
        hasty.push_back(std::async(std::launch::async, [&locks, i] {
            expect_error(error_code::network_timeout, [&] {
                (void)locks.acquire("hasty:" + std::to_string(i), {.ttl = 60s, .timeout = 150ms});
            });
        }));
    }
    for (auto& each : hasty)
        each.get();
    proxy_.resume(direction::to_client);
    for (std::size_t i = 0; i < patient.size(); ++i)
        EXPECT_EQ(patient[i].get(), i % 2 == 0) << i;
    EXPECT_TRUE(eventually([&] { return locks_in(server_) == 1; }, cleanup_time));
}

TEST_P(redis_silence, a_stop_request_takes_effect_at_once_and_leaves_nothing_locked) {
    const auto locks = open();
    EXPECT_FALSE(form_->is_locked(locks, "warm-up", {}));
    for (const bool stop_the_server : {true, false}) {
        stop_the_server ? server_.pause() : proxy_.stall(direction::to_client);
        std::stop_source stop;
        auto call = std::async(std::launch::async, [&] {
            return form_->acquire(locks, "k", {.ttl = 60s}, stop.get_token());
        });
        EXPECT_EQ(call.wait_for(100ms), std::future_status::timeout);
        const auto taken = time_of([&] {
            stop.request_stop();
            expect_error(error_code::aborted, [&] { (void)call.get(); });
        });
        EXPECT_LT(taken, margin);
        stop_the_server ? server_.resume() : proxy_.resume(direction::to_client);
        // The release was sent before this call, so that this caller finds the lock free.
        auto next = form_->acquire(locks, "k", {.ttl = 60s}, {});
        ASSERT_TRUE(next);
        EXPECT_TRUE(form_->release(*next));
    }
}

TEST_P(redis_silence, a_cancelled_acquisition_is_released_even_if_its_release_overtook_it) {
    const auto locks = open();
    EXPECT_FALSE(form_->is_locked(locks, "warm-up", {}));
    // Requests on this connection arrive much later than those on the next one.
    proxy_.delay(direction::to_server, 1500ms);
    std::stop_source stop;
    auto cancelled = std::async(std::launch::async, [&] {
        return form_->acquire(locks, "k", {.ttl = 60s}, stop.get_token());
    });
    EXPECT_EQ(cancelled.wait_for(50ms), std::future_status::timeout);
    // No third call is sent before a call is answered, so that the release has to wait.
    auto hasty = std::async(std::launch::async,
                            [&] { return locks.is_locked("other", {.timeout = 200ms}); });
    EXPECT_EQ(hasty.wait_for(50ms), std::future_status::timeout);
    stop.request_stop();
    expect_error(error_code::aborted, [&] { (void)cancelled.get(); });
    proxy_.delay(direction::to_server, 0ms);
    expect_error(error_code::network_timeout, [&] { (void)hasty.get(); });
    EXPECT_TRUE(eventually([&] {
        return server_.command({"GET", "syncguard:fence:syncguard:k"}).text == "1";
    }));
    EXPECT_TRUE(eventually([&] { return !holds_lock(server_, "k"); }, cleanup_time));
}

TEST_P(redis_silence, a_release_in_the_background_soon_leaves_a_dead_connection) {
    const auto locks = open();
    EXPECT_FALSE(form_->is_locked(locks, "warm-up", {}));
    // The acquisition arrives; neither its answer nor its release arrives during this test.
    proxy_.delay(direction::to_client, 60s);
    std::stop_source stop;
    auto cancelled = std::async(std::launch::async, [&] {
        return form_->acquire(locks, "k", {.ttl = 60s}, stop.get_token());
    });
    EXPECT_TRUE(eventually([&] { return holds_lock(server_, "k"); }));
    proxy_.delay(direction::to_server, 60s);
    stop.request_stop();
    expect_error(error_code::aborted, [&] { (void)cancelled.get(); });
    proxy_.delay(direction::to_client, 0ms);
    proxy_.delay(direction::to_server, 0ms);
    EXPECT_TRUE(eventually([&] { return !holds_lock(server_, "k"); }, cleanup_time));
}

TEST_P(redis_silence, timeouts_below_the_round_trip_do_not_each_open_a_connection) {
    const auto locks = open();
    EXPECT_FALSE(form_->is_locked(locks, "warm-up", {}));
    proxy_.delay(direction::to_client, 30ms);
    int timeouts = 0;
    for (int i = 0; i < 200; ++i) {
        try {
            (void)form_->acquire(locks, "k", {.ttl = 60s, .timeout = 5ms}, {});
        } catch (const lock_error& failure) {
            EXPECT_EQ(failure.code(), error_code::network_timeout) << failure.what();
            ++timeouts;
        }
    }
    EXPECT_GT(timeouts, 100);
    EXPECT_LE(proxy_.connections(), 10U);
    EXPECT_TRUE(eventually([&] { return locks_in(server_) == 0; }, cleanup_time));
}

TEST_P(redis_silence, a_call_that_was_not_sent_because_of_others_reports_that_at_its_deadline) {
    const auto locks = open(60s);
    EXPECT_FALSE(form_->is_locked(locks, "warm-up", {}));
    proxy_.delay(direction::to_client, 400ms);
    // More operations than are sent before an answer arrives.
    std::vector<std::future<bool>> others;
    for (int i = 0; i < 300; ++i) {
        others.push_back(
            async_is_locked(locks, "other:" + std::to_string(i), {}, boost::asio::use_future));
    }
    const auto failure = expect_error(error_code::network_timeout,
                                      [&] { (void)locks.is_locked("k", {.timeout = 100ms}); });
    ASSERT_TRUE(failure);
    const std::string text = failure->what();
    EXPECT_NE(text.find("too many operations waited for"), std::string::npos) << text;
    for (auto& each : others)
        EXPECT_FALSE(each.get());
}

TEST_P(redis_silence, a_late_answer_delays_no_caller_once_it_has_arrived) {
    const auto locks = open(60s);
    auto held = open().acquire("held", {.ttl = 60s});
    ASSERT_TRUE(held);
    // During this call its thread is the leader.
    auto waiting = std::async(std::launch::async, [&] {
        return acquire_with_retries(locks, "held", {.ttl = 60s, .timeout = 50s}).valid();
    });
    ASSERT_TRUE(eventually([&] {
        const auto stats = server_.command({"INFO", "stats"}).text;
        return stats.find("tracking_total_keys:1\r\n") != std::string::npos;
    }));
    int late = 0;
    for (int i = 0; i < 10; ++i) {
        proxy_.delay(direction::to_client, 60ms);
        try {
            (void)locks.is_locked("k", {.timeout = 20ms});
        } catch (const lock_error& failure) {
            EXPECT_EQ(failure.code(), error_code::network_timeout) << failure.what();
            ++late;
        }
        proxy_.delay(direction::to_client, 0ms);
        EXPECT_LT(time_of([&] { EXPECT_FALSE(form_->is_locked(locks, "k", {})); }), margin);
    }
    EXPECT_GT(late, 0);
    EXPECT_TRUE(held->release());
    EXPECT_TRUE(waiting.get());
}

INSTANTIATE_TEST_SUITE_P(all, redis_silence, blocking_and_async(), name_of_api_form);

// Unreachable servers.

std::size_t open_descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

class redis_absence : public testing::TestWithParam<api_form_kind> {
  protected:
    /// Expects a failure that names the server, well before the call's deadline.
    void expect_prompt_failure(const any_backend& locks, error_code code, const std::string& name) {
        const auto taken = time_of([&] {
            const auto failure =
                expect_error(code, [&] { (void)form_->acquire(locks, "k", {}, {}); });
            if (failure) {
                EXPECT_NE(std::string(failure->what()).find(name), std::string::npos)
                    << failure->what();
            }
        });
        EXPECT_LT(taken, 2s + margin);
    }

    std::unique_ptr<api_form> form_ = GetParam().make();
};

TEST_P(redis_absence, a_server_that_is_down_is_named_and_used_when_it_starts) {
    redis_server server;
    const any_backend locks = redis::backend({.host = "127.0.0.1", .port = server.port()}, quiet());
    server.kill();
    for (int i = 0; i < 3; ++i) {
        expect_prompt_failure(locks, error_code::service_unavailable,
                              "127.0.0.1:" + std::to_string(server.port()));
    }
    server.restart();
    auto lease = form_->acquire(locks, "k", {}, {});
    ASSERT_TRUE(lease);
    EXPECT_TRUE(form_->release(*lease));
}

TEST_P(redis_absence, a_call_too_short_for_another_attempt_reports_why_the_last_one_failed) {
    const reserved_port port;
    const any_backend locks = redis::backend({.host = "127.0.0.1", .port = port.number()}, quiet());
    for (int i = 0; i < 5; ++i) {
        const auto failure = expect_error(error_code::service_unavailable, [&] {
            (void)form_->acquire(locks, "k", {.timeout = 20ms}, {});
        });
        EXPECT_NE(std::string(failure->what()).find("refused"), std::string::npos)
            << failure->what();
    }
}

TEST_P(redis_absence, a_host_without_an_address_is_named) {
    const any_backend locks =
        redis::backend(redis::parse_url("redis://no-such-host.invalid"), quiet(milliseconds(10s)));
    const auto failure = expect_error(error_code::service_unavailable,
                                      [&] { (void)form_->acquire(locks, "k", {}, {}); });
    EXPECT_NE(std::string(failure->what()).find("no-such-host.invalid"), std::string::npos);
}

TEST_P(redis_absence, a_socket_file_that_does_not_exist_is_named) {
    const any_backend locks =
        redis::backend(redis::parse_url("redis+unix:///no/such/redis.sock"), quiet());
    expect_prompt_failure(locks, error_code::service_unavailable, "/no/such/redis.sock");
}

TEST_P(redis_absence, connecting_is_bounded_too) {
    redis_server server;
    fault_proxy proxy(server.port());
    proxy.stall(direction::to_client);
    proxy.stall(direction::to_server);
    const any_backend locks = redis::backend(
        {.host = "127.0.0.1", .port = proxy.port(), .connect_timeout = 300ms}, quiet());
    const auto taken = time_of([&] {
        const auto failure = expect_error(error_code::network_timeout,
                                          [&] { (void)form_->acquire(locks, "k", {}, {}); });
        EXPECT_NE(std::string(failure->what()).find(std::to_string(proxy.port())),
                  std::string::npos);
    });
    EXPECT_GE(taken, 300ms);
    EXPECT_LT(taken, 300ms + margin);
    const auto shorter = time_of([&] {
        expect_error(error_code::network_timeout,
                     [&] { (void)form_->acquire(locks, "k", {.timeout = 100ms}, {}); });
    });
    EXPECT_LT(shorter, 100ms + margin);
    proxy.resume(direction::to_client);
    proxy.resume(direction::to_server);
    EXPECT_TRUE(form_->acquire(locks, "k", {}, {}));
}

TEST_P(redis_absence, a_port_that_accepts_no_connections_is_a_timeout) {
    owned_fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in any = loopback_address(0);
    ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
    ASSERT_EQ(::listen(listener.get(), 0), 0);
    const owned_fd fills_the_backlog = connect_to_loopback(port_of(listener.get()));
    const any_backend locks = redis::backend(
        {.host = "127.0.0.1", .port = port_of(listener.get()), .connect_timeout = 300ms}, quiet());
    const auto taken = time_of([&] {
        expect_error(error_code::network_timeout,
                     [&] { (void)form_->acquire(locks, "k", {}, {}); });
    });
    EXPECT_LT(taken, 300ms + margin);
}

TEST_P(redis_absence, a_name_is_looked_up_for_each_connection) {
    redis_server server;
    const any_backend locks = redis::backend({.host = "localhost", .port = server.port()}, quiet());
    for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(form_->acquire(locks, "k", {}, {}));
        server.restart();
    }
    EXPECT_TRUE(form_->acquire(locks, "k", {}, {}));
}

TEST_P(redis_absence, a_thousand_failed_connections_leave_no_descriptor) {
    const reserved_port nobody;
    fault_proxy closing(nobody.number());
    closing.refuse_connections();
    const auto fail_once = [&](const redis::options& store) {
        const any_backend locks = redis::backend(store, quiet());
        expect_error(error_code::service_unavailable,
                     [&] { (void)form_->is_locked(locks, "k", {}); });
    };
    const std::vector<redis::options> ways{
        {.host = "127.0.0.1", .port = nobody.number()},
        {.host = "127.0.0.1", .port = closing.port()},
        redis::parse_url("redis+unix:///no/such/redis.sock"),
    };
    for (const auto& each : ways)
        fail_once(each);
    const auto before = open_descriptors();
    for (std::size_t i = 0; i < 1'000; ++i)
        fail_once(ways[i % ways.size()]);
    EXPECT_TRUE(eventually([&] { return open_descriptors() == before; }))
        << before << " before, " << open_descriptors() << " afterwards";
}

INSTANTIATE_TEST_SUITE_P(all, redis_absence, blocking_and_async(), name_of_api_form);

}  // namespace
}  // namespace syncguard::test
