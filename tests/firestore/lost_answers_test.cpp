/// Requests that fail: refused, answered with an error, lost, or executed with a lost answer.
#include "firestore/firestore_fault.hpp"
#include "support/manual_clock.hpp"

#include <syncguard/lock_id.hpp>

#include <boost/json.hpp>

#include <functional>
#include <future>
#include <thread>
#include <vector>

namespace syncguard::test {
namespace {

using ending = request_fault::ending;

class firestore_http : public firestore_fault {
  protected:
    /// Makes a call whose commit is held by the proxy, and cancels it there.
    static void cancel_while_held(firestore_proxy& proxy,
                                  const std::function<void(std::stop_token)>& call) {
        const auto commits = proxy.requests("commit");
        proxy.fail_next("commit", {.mode = ending::hold});
        std::stop_source stop;
        auto calling = std::async(std::launch::async, [&] {
            expect_error(error_code::aborted, [&] { call(stop.get_token()); });
        });
        EXPECT_TRUE(eventually([&] { return proxy.requests("commit") == commits + 1; }));
        stop.request_stop();
        calling.get();
    }
};
INSTANTIATE_TEST_SUITE_P(all, firestore_http, blocking_and_async(), name_of_api_form);

TEST_P(firestore_http, a_conflict_is_resolved_within_the_call) {
    const auto locks = open();
    const request_fault aborted{.status = 409, .word = "ABORTED"};
    proxy_->fail_next("commit", aborted);
    proxy_->fail_next("commit", aborted);
    auto lease = acquire(locks, "k");
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->fence().str(), "000000000000001");
    proxy_->fail_next("commit", aborted);
    EXPECT_TRUE(form_->extend(*lease, {.ttl = 90s}).ok);
    proxy_->fail_next("commit", aborted);
    EXPECT_TRUE(form_->release(*lease).ok);
    EXPECT_FALSE(is_stored("k"));
    EXPECT_EQ(proxy_->faults_left(), 0U);
}

TEST_P(firestore_http, contention_that_lasts_until_the_deadline_is_reported_as_contention) {
    const auto locks = open(1500ms);
    auto lease = acquire(locks, "held");
    ASSERT_TRUE(lease);
    proxy_->fail_all("commit", {.status = 409, .word = "ABORTED"});
    const auto expect_contention = [](const std::function<void()>& action) {
        const auto failure = expect_error(error_code::service_unavailable, action);
        ASSERT_TRUE(failure);
        EXPECT_NE(std::string(failure->what()).find("others kept changing"), std::string::npos)
            << failure->what();
    };
    expect_contention([&] { (void)acquire(locks, "k"); });
    expect_contention([&] { (void)form_->extend(*lease, {.ttl = 90s}); });
    expect_contention([&] { (void)form_->release(*lease); });
    EXPECT_FALSE(is_stored("k"));
    EXPECT_TRUE(is_stored("held"));
}

TEST_P(firestore_http, a_refusal_that_is_no_conflict_ends_the_call_although_it_looks_like_one) {
    const auto locks = open();
    for (int i = 0; i < 2; ++i)
        proxy_->fail_next("commit", {.status = 400, .word = "FAILED_PRECONDITION"});
    expect_error(error_code::invalid_argument, [&] { (void)acquire(locks, "k"); });
    EXPECT_EQ(proxy_->requests("commit"), 1U);
    EXPECT_FALSE(is_stored("k"));
}

TEST_P(firestore_http, an_error_of_the_server_is_reported_by_its_kind_and_nothing_is_locked) {
    struct expected {
        unsigned status;
        const char* word;
        error_code code;
    };
    const auto locks = open();
    for (const std::string method : {"batchGet", "commit"}) {
        for (const auto& each : {expected{429, "RESOURCE_EXHAUSTED", error_code::rate_limited},
                                 expected{500, "INTERNAL", error_code::service_unavailable},
                                 expected{503, "UNAVAILABLE", error_code::service_unavailable},
                                 expected{503, "", error_code::service_unavailable},
                                 expected{504, "DEADLINE_EXCEEDED", error_code::network_timeout},
                                 expected{403, "PERMISSION_DENIED", error_code::auth_failed},
                                 expected{400, "INVALID_ARGUMENT", error_code::invalid_argument}}) {
            const auto counter = counter_of("k");
            proxy_->fail_next(method, {.status = each.status, .word = each.word});
            const auto failure = expect_error(each.code, [&] { (void)acquire(locks, "k"); });
            ASSERT_TRUE(failure);
            const std::string said = failure->what();
            EXPECT_NE(said.find(std::to_string(each.status)), std::string::npos) << said;
            EXPECT_EQ(said.find("secret-name"), std::string::npos) << said;
            EXPECT_FALSE(is_stored("k")) << each.status << method;
            // A commit of unknown outcome is undone in the background.
            if (method == "commit" && each.status >= 500) {
                EXPECT_TRUE(eventually([&] { return counter_of("k") != counter; }));
            }
        }
    }
}

TEST_P(firestore_http, a_failed_search_is_reported_by_its_kind_and_changes_nothing) {
    const auto id = acquire(open_directly(), "k")->detach();
    const auto locks = open();
    EXPECT_FALSE(form_->is_locked(locks, "other", {}));
    proxy_->fail_next("runQuery", {.status = 503, .word = "UNAVAILABLE"});
    expect_error(error_code::service_unavailable, [&] { (void)form_->release(locks, id, {}); });
    proxy_->fail_next("runQuery", {.status = 429, .word = "RESOURCE_EXHAUSTED"});
    expect_error(error_code::rate_limited,
                 [&] { (void)form_->extend(locks, id, {.ttl = 60s}, {}); });
    EXPECT_EQ(proxy_->requests("commit"), 0U);
    // On a new connection a cut fails the call; on a kept one the search is repeated.
    proxy_->fail_next("runQuery", {.mode = ending::cut});
    expect_error(error_code::service_unavailable, [&] { (void)form_->release(open(), id, {}); });
    EXPECT_TRUE(is_stored("k"));
    proxy_->fail_next("runQuery", {.mode = ending::cut});
    EXPECT_TRUE(form_->release(locks, id, {}).ok);
    EXPECT_FALSE(is_stored("k"));
}

TEST_P(firestore_http, an_executed_commit_counts_even_if_its_answer_was_lost) {
    const auto locks = open();
    int fences = 0;
    for (const request_fault& lost :
         {request_fault{.forward = true, .mode = ending::cut},
          request_fault{.forward = true, .status = 503, .word = "UNAVAILABLE"},
          request_fault{.forward = true, .status = 500, .word = "INTERNAL"},
          request_fault{.forward = true, .status = 504, .word = "DEADLINE_EXCEEDED"},
          request_fault{.forward = true, .status = 499, .word = "CANCELLED"},
          request_fault{.forward = true, .status = 408, .word = ""},
          request_fault{.forward = true, .status = 302, .word = ""},
          request_fault{.forward = true, .status = 400, .word = ""},
          request_fault{.forward = true, .status = 404, .word = ""}}) {
        proxy_->fail_next("commit", lost);
        auto lease = acquire(locks, "k");
        ASSERT_TRUE(lease);
        EXPECT_EQ(lease->fence(), fence::from_counter(static_cast<std::uint64_t>(++fences)));
        EXPECT_EQ(counter_of("k"), lease->fence().str());

        proxy_->fail_next("commit", lost);
        const auto extended = form_->extend(*lease, {.ttl = 90s});
        EXPECT_TRUE(extended.ok);
        EXPECT_EQ(open_directly().lookup(key_lookup{"k"})->expires_at, extended.expires_at);

        proxy_->fail_next("commit", lost);
        EXPECT_TRUE(form_->release(*lease).ok);
        EXPECT_FALSE(is_stored("k"));
    }
    EXPECT_EQ(proxy_->faults_left(), 0U);
}

TEST_P(firestore_http, a_commit_that_was_not_executed_is_repeated_if_the_connection_broke) {
    const auto locks = open();
    const request_fault cut{.mode = ending::cut};
    proxy_->fail_next("commit", cut);
    auto lease = acquire(locks, "k");
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->fence().str(), "000000000000001");
    proxy_->fail_next("commit", cut);
    EXPECT_TRUE(form_->extend(*lease, {.ttl = 90s}).ok);
    proxy_->fail_next("commit", cut);
    EXPECT_TRUE(form_->release(*lease).ok);

    for (int i = 0; i < 3; ++i)
        proxy_->fail_next("commit", cut);
    expect_error(error_code::service_unavailable, [&] { (void)acquire(locks, "k"); });
    EXPECT_FALSE(is_stored("k"));
}

TEST_P(firestore_http, an_interim_response_does_not_shift_answers_to_other_requests) {
    const auto locks = open();
    EXPECT_TRUE(acquire(locks, "k")->release().ok);
    // The client has cached the counter now: the next acquisition is a single commit, granted by a
    // 200.
    for (const unsigned interim : {100U, 102U, 103U}) {
        proxy_->fail_next("commit", {.mode = ending::interim, .status = interim});
        try {
            EXPECT_TRUE(acquire(locks, "other" + std::to_string(interim)));
        } catch (const lock_error& failure) {
            ADD_FAILURE() << failure.what();
        }
        auto holder = acquire(open_directly(), "k");
        ASSERT_TRUE(holder) << interim;
        EXPECT_FALSE(acquire(locks, "k")) << interim;
        EXPECT_TRUE(holder->release().ok);
        EXPECT_TRUE(acquire(locks, "k")->release().ok);
    }
}

TEST_P(firestore_http, a_switch_of_protocols_leaves_the_outcome_unknown) {
    const auto locks = open();
    proxy_->fail_next("commit", {.mode = ending::interim, .status = 101});
    auto lease = acquire(locks, "k");
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->fence().str(), "000000000000001");
    EXPECT_TRUE(form_->release(*lease).ok);
    EXPECT_EQ(proxy_->server().connections(), 2U);
}

TEST_P(firestore_http, an_answer_to_fewer_or_more_writes_than_were_sent_grants_nothing) {
    const std::string result = R"({"updateTime":"t"})";
    for (const std::string& results : {result, result + "," + result + "," + result}) {
        proxy_->fail_next("commit",
                          {.status = 200, .body = R"({"writeResults":[)" + results + "]}"});
        expect_error(error_code::internal, [&] { (void)acquire(open(), "k"); });
        EXPECT_FALSE(is_stored("k"));
    }
}

TEST_P(firestore_http, a_commit_that_is_delivered_after_it_was_undone_takes_no_effect) {
    // The second time the counter exists; the third time the client has cached it and commits
    // without a read.
    for (const char* const way : {"fresh", "counted", "remembered"}) {
        SCOPED_TRACE(way);
        firestore_proxy proxy(project_->port());
        const any_backend late = firestore::backend(
            {.project = project_->name(), .emulator_host = proxy.host()}, quiet(20s));
        if (way == std::string("remembered")) {
            EXPECT_TRUE(late.acquire("k")->release().ok);
        }
        const auto commits = proxy.forwarded("commit");
        const auto counter = counter_of("k");
        cancel_while_held(proxy, [&](std::stop_token stop) {
            (void)form_->acquire(late, "k", {.ttl = 60s}, std::move(stop));
        });
        EXPECT_TRUE(eventually([&] { return counter_of("k") != counter; }));
        proxy.resume();
        ASSERT_TRUE(eventually([&] { return proxy.forwarded("commit") == commits + 2; }));
        EXPECT_FALSE(is_stored("k"));
        auto next = acquire(open_directly(), "k");
        ASSERT_TRUE(next);
        EXPECT_GT(next->fence().str(), counter == "none" ? "0" : counter);
        EXPECT_TRUE(next->release().ok);
    }
}

TEST_P(firestore_http, a_commit_that_is_delivered_after_the_key_was_found_locked_takes_no_effect) {
    constexpr unix_time stored{1'700'000'000s};
    project_->put("locks", "k",
                  R"({"lockId":{"stringValue":")" + lock_id::generate().to_string() +
                      R"("},"expiresAtMs":{"integerValue":"1700000000000"},)"
                      R"("acquiredAtMs":{"integerValue":"1"},)"
                      R"("key":{"stringValue":"k"},)"
                      R"("fence":{"stringValue":"000000000000005"}})");
    // The lock has expired, until this host's clock is set back after the first commit.
    const any_backend locks = firestore::backend(
        {.project = project_->name(),
         .emulator_host = proxy_->host(),
         .clock = [this, stored] { return stored + (proxy_->requests("commit") == 0 ? 5s : -5s); }},
        quiet(20s));
    proxy_->fail_next("commit", {.mode = ending::late});
    EXPECT_FALSE(acquire(locks, "k"));
    EXPECT_TRUE(eventually([&] { return counter_of("k") == "000000000000006"; }));
    EXPECT_GE(proxy_->deliver_late().at(0), 400U);
}

TEST_P(firestore_http, a_first_copy_that_is_delivered_after_the_second_fails) {
    const auto locks = open();
    const auto expect_refusal = [&] {
        const auto statuses = proxy_->deliver_late();
        ASSERT_EQ(statuses.size(), 1U);
        EXPECT_GE(statuses[0], 400U);
    };
    const request_fault late{.mode = ending::late};
    proxy_->fail_next("commit", late);
    auto lease = acquire(locks, "k");
    ASSERT_TRUE(lease);
    expect_refusal();

    proxy_->fail_next("commit", late);
    const auto extended = form_->extend(*lease, {.ttl = 90s});
    ASSERT_TRUE(extended.ok);
    expect_refusal();
    EXPECT_EQ(locks.lookup(key_lookup{"k"})->expires_at, extended.expires_at);

    proxy_->fail_next("commit", late);
    EXPECT_TRUE(form_->release(*lease).ok);
    auto next = acquire(open_directly(), "k");
    ASSERT_TRUE(next);
    expect_refusal();
    EXPECT_TRUE(is_stored("k"));
    EXPECT_TRUE(next->release().ok);
}

TEST_P(firestore_http, an_extension_that_was_acknowledged_is_not_replaced_by_an_earlier_one) {
    manual_clock clock;
    const any_backend locks = firestore::backend({.project = project_->name(),
                                                  .emulator_host = proxy_->host(),
                                                  .clock = clock.as_wall_clock()},
                                                 quiet(20s));
    auto lease = acquire(locks, "k");
    ASSERT_TRUE(lease);
    cancel_while_held(*proxy_, [&](std::stop_token stop) {
        (void)form_->extend(locks, lease->lock_id(), {.ttl = 500ms}, std::move(stop));
    });
    // Extends to exactly the stored expiry: a write without a change keeps the document's version.
    const auto extended = locks.extend(lease->lock_id(), {.ttl = 60s});
    ASSERT_TRUE(extended.ok);
    proxy_->resume();
    ASSERT_TRUE(eventually([&] { return proxy_->forwarded("commit") == 3; }));
    EXPECT_EQ(locks.lookup(key_lookup{"k"})->expires_at, extended.expires_at);
}

TEST_P(firestore_http, an_extension_that_failed_limits_the_lease_only_until_the_next_one) {
    auto lease = acquire(open(), "k");
    ASSERT_TRUE(lease);
    cancel_while_held(
        *proxy_, [&](std::stop_token stop) { (void)lease->extend({.ttl = 10s}, std::move(stop)); });
    EXPECT_LE(lease->remaining(), 10s);
    ASSERT_TRUE(lease->extend({.ttl = 60s}).ok);
    EXPECT_GT(lease->remaining(), 50s);
    proxy_->resume();
    ASSERT_TRUE(eventually([&] { return proxy_->forwarded("commit") == 3; }));
    EXPECT_TRUE(lease->extend({.ttl = 60s}).ok);
}

TEST_P(firestore_http,
       an_extension_whose_read_is_late_does_not_shorten_one_that_was_executed_before_it) {
    manual_clock clock;
    const any_backend locks = firestore::backend({.project = project_->name(),
                                                  .emulator_host = proxy_->host(),
                                                  .clock = clock.as_wall_clock(),
                                                  .on_clock_skew = firestore::on_clock_skew::warn},
                                                 quiet(20s));
    auto lease = acquire(locks, "k");
    ASSERT_TRUE(lease);
    const auto reads = proxy_->requests("batchGet");
    proxy_->fail_next("commit", {.status = 409, .word = "ABORTED"});
    proxy_->fail_next("batchGet", {.mode = ending::hold});
    auto extending =
        std::async(std::launch::async, [&] { return form_->extend(*lease, {.ttl = 60s}); });
    ASSERT_TRUE(eventually([&] { return proxy_->requests("batchGet") == reads + 1; }));
    clock.advance(3s);
    const auto executed_before = lease->extend({.ttl = 60s});
    EXPECT_TRUE(executed_before.ok);
    proxy_->resume();
    const auto executed_last = extending.get();
    EXPECT_TRUE(executed_last.ok);
    // The lease counts the TTL of the last extension from the time at which the extension before it
    // was sent.
    EXPECT_GE(executed_last.expires_at, executed_before.expires_at);
    EXPECT_EQ(locks.lookup(key_lookup{"k"})->expires_at, executed_last.expires_at);
}

TEST_P(firestore_http, a_release_by_id_whose_answer_was_lost_is_reported_as_successful) {
    const auto id = acquire(open_directly(), "k")->detach();
    proxy_->fail_next("commit", {.forward = true, .mode = ending::cut});
    EXPECT_TRUE(form_->release(open(), id, {}).ok);
    EXPECT_FALSE(form_->release(open(), id, {}).ok);
}

TEST_P(firestore_http, a_release_whose_answer_was_lost_does_not_touch_the_next_owners_lock) {
    const auto locks = open();
    auto lease = acquire(locks, "k");
    ASSERT_TRUE(lease);
    // The second commit of the release, if there is one, arrives when another client holds the key.
    proxy_->fail_next("commit", {.forward = true, .mode = ending::stall});
    auto releasing = std::async(std::launch::async, [&] { return form_->release(*lease).ok; });
    const auto others = open_directly();
    any_result other;
    ASSERT_TRUE(eventually([&] {
        other = others.acquire("k", {.ttl = 60s});
        return static_cast<bool>(other);
    }));
    proxy_->resume();
    EXPECT_TRUE(releasing.get());
    EXPECT_TRUE(is_stored("k"));
    EXPECT_TRUE(other->release().ok);
}

TEST_P(firestore_http, a_read_on_a_kept_connection_that_was_closed_is_repeated) {
    const auto locks = open();
    EXPECT_FALSE(form_->is_locked(locks, "k", {}));
    proxy_->fail_next("batchGet", {.mode = ending::cut});
    EXPECT_FALSE(form_->is_locked(locks, "k", {}));
    EXPECT_EQ(proxy_->server().connections(), 2U);

    // On a new connection a cut fails the call.
    proxy_->fail_next("batchGet", {.mode = ending::cut});
    expect_error(error_code::service_unavailable, [&] { (void)form_->is_locked(open(), "k", {}); });
}

TEST_P(firestore_http, a_stalled_call_ends_at_its_deadline_and_leaves_nothing_locked) {
    for (const bool forward : {false, true}) {
        const auto locks = open(700ms);
        proxy_->fail_next("commit", {.forward = forward, .mode = ending::stall});
        const auto begin = steady_clock::now();
        expect_error(error_code::network_timeout, [&] { (void)acquire(locks, "k"); });
        EXPECT_LT(steady_clock::now() - begin, 700ms + margin);
        EXPECT_TRUE(eventually([&] { return !is_stored("k"); }));
        // The connection with the outstanding answer is not used again.
        EXPECT_FALSE(open_directly().is_locked("k"));
    }
    auto next = acquire(open_directly(), "k");
    ASSERT_TRUE(next);
    EXPECT_GT(next->fence().str(), "000000000000001");
}

TEST_P(firestore_http, a_stop_request_ends_a_stalled_call_soon) {
    const auto locks = open(60s);
    proxy_->fail_next("commit", {.forward = true, .mode = ending::stall});
    std::stop_source stop;
    auto acquiring = std::async(std::launch::async, [&] {
        expect_error(error_code::aborted,
                     [&] { (void)form_->acquire(locks, "k", {.ttl = 60s}, stop.get_token()); });
    });
    ASSERT_TRUE(eventually([&] { return is_stored("k"); }));
    const auto begin = steady_clock::now();
    stop.request_stop();
    acquiring.get();
    EXPECT_LT(steady_clock::now() - begin, margin);
    EXPECT_TRUE(eventually([&] { return !is_stored("k"); }));
}

TEST_P(firestore_http, the_destructor_of_a_backend_leaves_time_for_the_background_release) {
    proxy_->fail_next("commit", {.forward = true, .mode = ending::stall});
    {
        const auto locks = open(700ms);
        expect_error(error_code::network_timeout, [&] { (void)acquire(locks, "k"); });
    }
    // The last owner of the backend may be a thread of the library.
    EXPECT_TRUE(eventually([&] { return !is_stored("k"); }));
}

TEST_P(firestore_http, a_missing_server_is_reported_as_unreachable) {
    const reserved_port nobody;
    const firestore::backend locks(
        {.project = "p", .emulator_host = "127.0.0.1:" + std::to_string(nobody.number())},
        quiet(20s));
    const auto failure = expect_error(error_code::service_unavailable,
                                      [&] { (void)form_->acquire(locks, "k", {}, {}); });
    ASSERT_TRUE(failure);
    EXPECT_NE(std::string(failure->what()).find(std::to_string(nobody.number())),
              std::string::npos);
}

TEST_P(firestore_http, connections_are_kept_and_no_more_than_allowed) {
    const firestore::backend locks(
        {.project = project_->name(), .emulator_host = proxy_->host(), .most_connections = 3},
        quiet(60s));
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 12; ++i) {
            threads.emplace_back([&, i] {
                const auto form = GetParam().make();
                for (int n = 0; n < 3; ++n)
                    EXPECT_FALSE(form->is_locked(locks, "k" + std::to_string(i), {}));
            });
        }
    }
    EXPECT_LE(proxy_->server().connections(), 3U);
    EXPECT_EQ(proxy_->requests("batchGet"), 36U);
}

TEST_P(firestore_http, cached_documents_save_reads_and_are_verified) {
    const auto locks = open();
    const auto pair = [&](const char* fence) {
        auto lease = acquire(locks, "k");
        ASSERT_TRUE(lease);
        EXPECT_EQ(lease->fence().str(), fence);
        EXPECT_TRUE(form_->release(*lease).ok);
    };
    pair("000000000000001");
    EXPECT_EQ(proxy_->requests("batchGet"), 1U);
    pair("000000000000002");
    EXPECT_EQ(proxy_->requests("batchGet"), 1U);
    EXPECT_EQ(proxy_->requests("commit"), 4U);
    EXPECT_EQ(proxy_->requests("runQuery"), 0U);

    const auto others = open_directly();
    EXPECT_TRUE(others.acquire("k")->release().ok);
    pair("000000000000004");
    auto other = others.acquire("k", {.ttl = 60s});
    ASSERT_TRUE(other);
    EXPECT_FALSE(acquire(locks, "k"));
    EXPECT_TRUE(other->release().ok);
    // As after an operator has removed documents manually.
    pair("000000000000006");
    project_->remove("fence_counters", "fence:k");
    pair("000000000000001");

    auto lease = acquire(locks, "k");
    ASSERT_TRUE(lease);
    EXPECT_TRUE(others.extend(lease->lock_id(), {.ttl = 90s}).ok);
    EXPECT_TRUE(form_->extend(*lease, {.ttl = 95s}).ok);
    EXPECT_TRUE(others.release(lease->lock_id()).ok);
    EXPECT_FALSE(form_->release(*lease).ok);
}

}  // namespace
}  // namespace syncguard::test
