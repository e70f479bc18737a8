/// The decisions that need no server.
#include "../../src/firestore/decisions.hpp"
#include "../../src/firestore/document_names.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

namespace syncguard::firestore {
namespace {

using namespace std::chrono_literals;
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
    for (const std::string bad :
         {"", "a/b", ".", "..", "__x__", "line\nbreak", "not UTF-8: \xff"}) {
        expect_error(error_code::invalid_argument, [&] { names(bad, "b"); });
        expect_error(error_code::invalid_argument, [&] { names("b", bad); });
    }
    expect_error(error_code::invalid_argument, [&] { names(std::string(1501, 'x'), "b"); });
}

TEST(projects_and_databases, are_no_steps_in_a_path) {
    for (const std::string step : {".", ".."}) {
        expect_error(error_code::invalid_argument,
                     [&] { (void)document_names({.project = step}); });
        expect_error(error_code::invalid_argument,
                     [&] { (void)document_names({.project = "p", .database = step}); });
    }
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

}  // namespace
}  // namespace syncguard::firestore
