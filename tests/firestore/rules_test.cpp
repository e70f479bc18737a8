/// The decisions that need no server.
#include "../../src/firestore/attempts.hpp"
#include "../../src/firestore/bounded_memory.hpp"
#include "../../src/firestore/decisions.hpp"
#include "../../src/firestore/document_names.hpp"
#include "../../src/firestore/documents.hpp"
#include "../../src/firestore/server_error.hpp"
#include "support/expect_error.hpp"

#include <boost/json.hpp>
#include <gtest/gtest.h>

namespace syncguard::firestore {
namespace {

using namespace std::chrono_literals;
namespace json = boost::json;
using test::expect_error;

constexpr unix_time now{1'700'000'000'000ms};

stored_lock lock_that_ends(milliseconds later, const lock_id& id = lock_id::generate()) {
    return {.name = "n",
            .record = {.key = "k",
                       .id = id,
                       .expires_at = now + later,
                       .acquired_at = now,
                       .fence = fence::from_counter(7)},
            .version = "v"};
}

acquire_request request_for(const lock_id& id) {
    return {.key = "k", .id = id, .ttl = 30s};
}

TEST(document_ids, of_keys_that_can_be_one_are_the_storage_key) {
    EXPECT_EQ(lock_document_id("resource:123"), "resource:123");
    EXPECT_EQ(counter_document_id("resource:123"), "fence:resource:123");
    EXPECT_EQ(lock_document_id("__"), "__");
    EXPECT_EQ(lock_document_id("__x"), "__x");
}

TEST(document_ids, of_other_keys_are_the_hash) {
    // echo -n KEY | sha256sum | head -c 32 | xxd -r -p | base64
    EXPECT_EQ(lock_document_id("a/b"), "wUzdwDP2S53qgOpnXPKAoA");
    for (const char* const key : {"/", "a/b", ".", "..", "____", "__.*__"}) {
        const auto id = lock_document_id(key);
        EXPECT_TRUE(lock_id::is_valid(id)) << key;
        EXPECT_EQ(counter_document_id(id), "fence:" + id);
    }
}

TEST(document_ids, of_long_keys_fit) {
    EXPECT_EQ(lock_document_id(std::string(512, 'x')).size(), 512U);
    EXPECT_EQ(lock_document_id(std::string(512, '/')).size(), 22U);
}

TEST(collections, must_be_names_and_must_differ) {
    const auto names = [](const std::string& locks, const std::string& counters) {
        (void)document_names(
            {.project = "p", .locks_collection = locks, .fence_counters_collection = counters});
    };
    EXPECT_NO_THROW(names("locks", "fence_counters"));
    expect_error(error_code::invalid_argument, [&] { names("locks", "locks"); });
    for (const std::string bad : {"", "a/b", ".", "..", "__x__", "line\nbreak"}) {
        expect_error(error_code::invalid_argument, [&] { names(bad, "b"); });
        expect_error(error_code::invalid_argument, [&] { names("b", bad); });
    }
    expect_error(error_code::invalid_argument, [&] { names(std::string(1501, 'x'), "b"); });
}

TEST(an_acquisition, is_granted_where_nothing_is_stored) {
    const auto id = lock_id::generate();
    const auto granted = grant_on({}, request_for(id), now);
    ASSERT_TRUE(granted);
    EXPECT_EQ(granted->id, id);
    EXPECT_EQ(granted->fence, fence::from_counter(1));
    EXPECT_EQ(granted->expires_at, now + 30s);
    EXPECT_EQ(granted->acquired_at, now);
}

TEST(an_acquisition, respects_a_lock_through_the_tolerance_to_the_millisecond) {
    const auto at = [](milliseconds later) {
        return grant_on({.lock = lock_that_ends(later), .counter = {}},
                        request_for(lock_id::generate()), now)
            .has_value();
    };
    EXPECT_FALSE(at(10s));
    EXPECT_FALSE(at(-999ms));
    EXPECT_TRUE(at(-1000ms));
}

TEST(an_acquisition, takes_the_fence_behind_the_greater_of_counter_and_lock) {
    const auto id = lock_id::generate();
    const stored_counter counter{.value = 41, .version = "v"};
    EXPECT_EQ(grant_on({.lock = {}, .counter = counter}, request_for(id), now)->fence,
              fence::from_counter(42));
    EXPECT_EQ(
        grant_on({.lock = lock_that_ends(-10s), .counter = counter}, request_for(id), now)->fence,
        fence::from_counter(42));
    EXPECT_EQ(grant_on({.lock = lock_that_ends(-10s), .counter = {}}, request_for(id), now)->fence,
              fence::from_counter(8));
}

TEST(an_acquisition, fails_at_the_end_of_the_counter) {
    const stored_counter counter{.value = fence::max_counter, .version = "v"};
    expect_error(error_code::internal, [&] {
        (void)grant_on({.lock = {}, .counter = counter}, request_for(lock_id::generate()), now);
    });
}

TEST(a_locked_key, can_stay_so_until_the_tolerance_has_passed) {
    EXPECT_EQ(time_until_free(lock_that_ends(10s).record, now), 11s);
    EXPECT_EQ(time_until_free(lock_that_ends(-999ms).record, now), 1ms);
}

TEST(the_owner, is_found_among_live_and_ended_locks) {
    const auto id = lock_id::generate();
    const std::vector<stored_lock> found{lock_that_ends(-10s, id), lock_that_ends(10s, id),
                                         lock_that_ends(10s)};
    const auto chosen = choose_owned(found, id, now);
    EXPECT_EQ(chosen.lock, &found[1]);
    EXPECT_FALSE(chosen.is_ambiguous);
    EXPECT_TRUE(choose_owned({found[1], found[1]}, id, now).is_ambiguous);
    EXPECT_EQ(choose_owned({found[0]}, id, now).reason, failure_reason::expired);
    EXPECT_EQ(choose_owned({found[2]}, id, now).reason, failure_reason::not_found);
}

TEST(cleanup, waits_for_tolerance_and_guard) {
    EXPECT_FALSE(may_be_cleaned_up(lock_that_ends(-2000ms).record, now));
    EXPECT_TRUE(may_be_cleaned_up(lock_that_ends(-2001ms).record, now));
}

TEST(documents, of_a_grant_demand_that_both_are_as_they_were_read) {
    const document_names::pair names{.lock = "L", .counter = "C"};
    const auto record = lock_that_ends(10s).record;
    const auto fresh = json::parse(encode_grant(names, {}, record));
    EXPECT_EQ(fresh.at("writes").at(0).at("currentDocument"), json::parse(R"({"exists":false})"));
    EXPECT_EQ(fresh.at("writes").at(1).at("currentDocument"), json::parse(R"({"exists":false})"));
    const stored_pair read{.lock = lock_that_ends(-10s),
                           .counter = stored_counter{.value = 1, .version = "w"}};
    const auto again = json::parse(encode_grant(names, read, record));
    EXPECT_EQ(again.at("writes").at(0).at("currentDocument"), json::parse(R"({"updateTime":"v"})"));
    EXPECT_EQ(again.at("writes").at(1).at("currentDocument"), json::parse(R"({"updateTime":"w"})"));
}

TEST(documents, that_are_not_an_answer_are_refused) {
    const document_names::pair names{.lock = "L", .counter = "C"};
    for (const char* const body : {"", "{}", "[", "null", R"([{"found":{"name":"other"}}])",
                                   R"([{"found":7}])", R"([{"found":{}}])"}) {
        expect_error(error_code::internal, [&] { (void)decode_read(body, names); });
    }
    expect_error(error_code::internal, [] { (void)decode_search("{}"); });
    expect_error(error_code::internal, [] { (void)decode_commit("{}"); });
    expect_error(error_code::internal, [] { (void)decode_commit("[]"); });
    expect_error(error_code::internal, [] { (void)decode_commit(R"({"writeResults":[]})"); });
}

TEST(documents, with_a_number_that_is_no_time_are_refused) {
    const document_names::pair names{.lock = "L", .counter = "C"};
    for (const char* const value :
         {R"({"stringValue":"12"})", R"({"integerValue":"x"})", R"({"doubleValue":1e300})",
          R"({"doubleValue":"NaN"})", R"({"integerValue":"99999999999999999999"})", "7"}) {
        const std::string body =
            std::string(R"([{"found":{"name":"L","updateTime":"v","fields":{)") +
            R"("lockId":{"stringValue":"AAAAAAAAAAAAAAAAAAAAAA"},"key":{"stringValue":"k"},)"
            R"("fence":{"stringValue":"000000000000001"},"acquiredAtMs":{"integerValue":"1"},)"
            R"("expiresAtMs":)" +
            value + "}}}]";
        expect_error(error_code::invalid_argument, [&] { (void)decode_read(body, names); });
    }
}

TEST(errors, are_read_alone_and_in_lists) {
    EXPECT_EQ(decode_error_status(R"({"error":{"status":"ABORTED"}})"), "ABORTED");
    EXPECT_EQ(decode_error_status(R"([{"error":{"status":"ABORTED"}}])"), "ABORTED");
    for (const char* const none : {"", "x", "[]", "{}", R"({"error":1})", R"({"error":{}})"})
        EXPECT_EQ(decode_error_status(none), "");
}

TEST(errors, mean_what_the_formats_say) {
    const auto code = [](unsigned http, const char* status) {
        return to_lock_error(http, status, "here").code();
    };
    EXPECT_EQ(code(503, "UNAVAILABLE"), error_code::service_unavailable);
    EXPECT_EQ(code(500, "INTERNAL"), error_code::service_unavailable);
    EXPECT_EQ(code(409, "ABORTED"), error_code::service_unavailable);
    EXPECT_EQ(code(504, "DEADLINE_EXCEEDED"), error_code::network_timeout);
    EXPECT_EQ(code(403, "PERMISSION_DENIED"), error_code::auth_failed);
    EXPECT_EQ(code(401, "UNAUTHENTICATED"), error_code::auth_failed);
    EXPECT_EQ(code(400, "INVALID_ARGUMENT"), error_code::invalid_argument);
    EXPECT_EQ(code(400, "FAILED_PRECONDITION"), error_code::invalid_argument);
    EXPECT_EQ(code(429, "RESOURCE_EXHAUSTED"), error_code::rate_limited);
    EXPECT_EQ(code(429, ""), error_code::rate_limited);
    EXPECT_EQ(code(502, ""), error_code::service_unavailable);
    EXPECT_EQ(code(418, "TEAPOT"), error_code::internal);
}

lock_error reason() {
    return {error_code::service_unavailable, "x"};
}

TEST(attempts, go_on_after_a_conflict_if_something_has_changed) {
    attempts so_far;
    EXPECT_TRUE(so_far.is_first());
    so_far.failed(setback::conflict, reason(), "v1");
    EXPECT_NO_THROW(so_far.judge("v2"));
    EXPECT_THROW(so_far.judge("v1"), lock_error);
    EXPECT_FALSE(so_far.doubt());
}

TEST(attempts, go_on_among_others_though_nothing_has_changed) {
    attempts so_far;
    for (int i = 0; i < 100; ++i) {
        so_far.failed(setback::contention, reason(), "v");
        EXPECT_NO_THROW(so_far.judge("v"));
        EXPECT_LE(so_far.pause(0.999), 250ms);
    }
}

TEST(attempts, end_after_a_failure_and_after_three_losses) {
    attempts failed;
    failed.failed(setback::failed, reason(), "v");
    EXPECT_THROW(failed.judge("w"), lock_error);
    EXPECT_TRUE(failed.doubt());
    attempts lost;
    for (int i = 0; i < 2; ++i) {
        lost.failed(setback::lost, reason(), "v");
        EXPECT_NO_THROW(lost.judge("v"));
    }
    lost.failed(setback::lost, reason(), "v");
    EXPECT_THROW(lost.judge("v"), lock_error);
}

TEST(the_memory, forgets_the_oldest_beyond_a_fixed_number) {
    bounded_memory<int, std::string> memory;
    memory.remember(1, "a");
    memory.remember(2, "b");
    memory.remember(1, "c");
    EXPECT_EQ(memory.find(1), "c");
    for (int i = 3; i <= 4097; ++i)
        memory.remember(i, "x");
    EXPECT_FALSE(memory.find(1));
    EXPECT_TRUE(memory.find(2));
    memory.forget(2);
    EXPECT_FALSE(memory.find(2));
}

}  // namespace
}  // namespace syncguard::firestore
