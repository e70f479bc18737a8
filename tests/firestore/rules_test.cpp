/// Decisions without I/O.
#include "firestore/document_names.hpp"
#include "firestore/lock_rules.hpp"
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

/// The names of a key's documents, relative to their collections.
struct relative_names {
    explicit relative_names(std::string_view key) {
        const auto names = document_names({.project = "p"}).of(key);
        const std::string root = "projects/p/databases/(default)/documents/";
        const auto cut = [&](const std::string& name, const std::string& collection) {
            const auto folder = root + collection + "/";
            EXPECT_TRUE(name.empty() || name.starts_with(folder)) << name;
            return name.empty() ? name : name.substr(folder.size());
        };
        lock = cut(names.lock, "locks");
        counter = cut(names.counter, "fence_counters");
        former_lock = cut(names.former_lock, "locks");
        former_counter = cut(names.former_counter, "fence_counters");
    }
    std::string lock;
    std::string counter;
    std::string former_lock;
    std::string former_counter;
};

TEST(documents_of_a_key, without_slashes_have_its_storage_key_as_id) {
    for (const std::string key : {"resource:123", "__", "__x", "fence:k", "..."}) {
        const relative_names names(key);
        EXPECT_EQ(names.lock, key);
        EXPECT_EQ(names.counter, "fence:" + key);
        EXPECT_EQ(names.former_lock, "");
        EXPECT_EQ(names.former_counter, "");
    }
    EXPECT_EQ(relative_names(std::string(512, 'x')).lock.size(), 512U);
}

TEST(documents_of_a_key,
     with_slashes_are_those_of_peers_and_in_earlier_versions_those_of_the_hash) {
    for (const std::string key : {"a/b/c", "a/b/c/d/e", "a/b/c/"}) {
        const relative_names names(key);
        const auto path = key.ends_with('/') ? key.substr(0, key.size() - 1) : key;
        EXPECT_EQ(names.lock, path);
        EXPECT_EQ(names.counter, "fence:" + path);
        EXPECT_TRUE(lock_id::is_valid(names.former_lock));
        EXPECT_EQ(names.former_counter, "fence:" + names.former_lock);
    }
    EXPECT_NE(relative_names("a/b/c").former_lock, relative_names("a/b/c/").former_lock);
}

TEST(documents_of_a_key, that_peers_cannot_lock_have_the_hash_as_id) {
    // echo -n KEY | sha256sum | head -c 32 | xxd -r -p | base64
    EXPECT_EQ(relative_names("a/b").lock, "wUzdwDP2S53qgOpnXPKAoA");
    for (const std::string& key :
         {std::string("/"), std::string("a/b"), std::string("/a"), std::string("/a/b"),
          std::string("a//b"), std::string("a//"), std::string("//a"), std::string("."),
          std::string(".."), std::string("____"), std::string("__.*__"), std::string("a/./b"),
          std::string("a/__b__/c"), std::string(512, '/')}) {
        const relative_names names(key);
        EXPECT_TRUE(lock_id::is_valid(names.lock)) << key;
        EXPECT_EQ(names.counter, "fence:" + names.lock) << key;
        EXPECT_EQ(names.former_lock, "") << key;
        EXPECT_EQ(names.former_counter, "") << key;
    }
}

TEST(a_lock, belongs_to_its_key_in_whatever_normal_form_it_was_stored) {
    lock_record lock = lock_that_ends(10s).record;
    lock.key = "e\xCC\x81";
    EXPECT_TRUE(is_lock_of(lock, "\xC3\xA9"));
    EXPECT_FALSE(is_lock_of(lock, "e"));
    lock.key.clear();
    EXPECT_FALSE(is_lock_of(lock, "e"));
}

TEST(a_lock_at_the_former_place, blocks_while_it_is_live_and_its_fences_count) {
    stored_pair read;
    read.former_lock = lock_that_ends(10s);
    read.former_counter = stored_counter{.value = 9, .version = "v"};
    const auto id = lock_id::generate();
    EXPECT_FALSE(grant_on(read, request_for(id), now));
    EXPECT_EQ(blocking_lock(read, now), &read.former_lock->record);
    const auto granted = grant_on(read, request_for(id), now + 11s);
    ASSERT_TRUE(granted);
    EXPECT_EQ(granted->fence, fence::from_counter(10));
    read.former_counter.reset();
    EXPECT_EQ(next_fence(read), fence::from_counter(8));
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

TEST(projects_and_databases, cannot_be_path_steps) {
    for (const std::string step : {".", ".."}) {
        expect_error(error_code::invalid_argument,
                     [&] { (void)document_names({.project = step}); });
        expect_error(error_code::invalid_argument,
                     [&] { (void)document_names({.project = "p", .database = step}); });
    }
}

TEST(an_acquisition, is_granted_if_nothing_is_stored) {
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

TEST(an_acquisition, takes_the_fence_after_the_greater_of_counter_and_lock) {
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

TEST(a_locked_key, can_stay_locked_until_the_tolerance_has_passed) {
    EXPECT_EQ(time_until_free(lock_that_ends(10s).record, now), 11s);
    EXPECT_EQ(time_until_free(lock_that_ends(-999ms).record, now), 1ms);
}

TEST(the_owner, is_found_among_live_and_expired_locks) {
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
