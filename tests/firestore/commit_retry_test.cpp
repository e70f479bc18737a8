/// The state of repeated commits, and the bounded cache.
#include "firestore/commit_retry.hpp"

#include "firestore/bounded_cache.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <new>

namespace syncguard::firestore {
namespace {

using namespace std::chrono_literals;

lock_error reason() {
    return {error_code::service_unavailable, "x"};
}

TEST(commit_retry, continues_after_a_conflict_if_something_has_changed) {
    commit_retry retry;
    EXPECT_TRUE(retry.is_first());
    retry.failed(commit_failure::precondition, reason(), "v1");
    EXPECT_NO_THROW(retry.throw_if_hopeless("v2"));
    EXPECT_THROW(retry.throw_if_hopeless("v1"), lock_error);
    EXPECT_FALSE(retry.unknown_outcome());
}

TEST(commit_retry, continues_after_contention_even_if_nothing_has_changed) {
    commit_retry retry;
    for (int i = 0; i < 100; ++i) {
        retry.failed(commit_failure::contention, reason(), "v");
        EXPECT_NO_THROW(retry.throw_if_hopeless("v"));
        EXPECT_LE(retry.pause(0.999), 250ms);
    }
}

TEST(commit_retry, is_contended_when_others_were_faster_repeatedly) {
    commit_retry retry;
    retry.failed(commit_failure::contention, reason(), "v");
    retry.failed(commit_failure::response_lost, reason(), "v");
    retry.failed(commit_failure::precondition, reason(), "v");
    EXPECT_FALSE(retry.is_contended());
    retry.failed(commit_failure::precondition, reason(), "w");
    EXPECT_TRUE(retry.is_contended());
}

TEST(commit_retry, leaves_the_outcome_unknown_until_it_is_recorded) {
    commit_retry retry;
    EXPECT_FALSE(retry.is_outcome_unknown());
    retry.begin();
    EXPECT_TRUE(retry.is_outcome_unknown());
    retry.failed(commit_failure::precondition, reason(), "v");
    EXPECT_FALSE(retry.is_outcome_unknown());
    retry.begin();
    retry.had_no_effect();
    EXPECT_FALSE(retry.is_outcome_unknown());
    retry.failed(commit_failure::response_lost, reason(), "v");
    retry.begin();
    retry.had_no_effect();
    EXPECT_TRUE(retry.is_outcome_unknown());
}

TEST(commit_retry, ends_after_a_failure_and_after_three_losses) {
    commit_retry failed;
    failed.failed(commit_failure::server_failed, reason(), "v");
    EXPECT_THROW(failed.throw_if_hopeless("w"), lock_error);
    EXPECT_TRUE(failed.unknown_outcome());
    commit_retry lost;
    for (int i = 0; i < 2; ++i) {
        lost.failed(commit_failure::response_lost, reason(), "v");
        EXPECT_NO_THROW(lost.throw_if_hopeless("v"));
    }
    lost.failed(commit_failure::response_lost, reason(), "v");
    EXPECT_THROW(lost.throw_if_hopeless("v"), lock_error);
}

TEST(bounded_cache, forgets_the_oldest_beyond_a_fixed_number) {
    bounded_cache<int, std::string> cache;
    cache.remember(1, "a");
    cache.remember(2, "b");
    cache.remember(1, "c");
    EXPECT_EQ(cache.find(1), "c");
    for (int i = 3; i <= 4097; ++i)
        cache.remember(i, "x");
    EXPECT_FALSE(cache.find(1));
    EXPECT_TRUE(cache.find(2));
    cache.forget(2);
    EXPECT_FALSE(cache.find(2));
}

/// A key whose copy can be made to fail with std::bad_alloc.
struct costly_key {
    explicit costly_key(int of) : number(of) {}
    costly_key(const costly_key& other) : number(other.number) {
        if (copies_left >= 0 && copies_left-- == 0) throw std::bad_alloc();
    }
    costly_key& operator=(const costly_key&) = delete;
    ~costly_key() = default;
    friend bool operator==(const costly_key& one, const costly_key& other) {
        return one.number == other.number;
    }

    int number;
    static inline int copies_left = -1;
};

}  // namespace
}  // namespace syncguard::firestore

template <>
struct std::hash<syncguard::firestore::costly_key> {
    std::size_t operator()(const syncguard::firestore::costly_key& key) const noexcept {
        return static_cast<std::size_t>(key.number);
    }
};

namespace syncguard::firestore {
namespace {

TEST(bounded_cache, stays_bounded_if_there_is_no_memory_for_an_entry) {
    for (int copies = 0;; ++copies) {
        bounded_cache<costly_key, int> cache;
        costly_key::copies_left = copies;
        bool failed = false;
        try {
            cache.remember(costly_key(0), 0);
        } catch (const std::bad_alloc&) {
            failed = true;
        }
        costly_key::copies_left = -1;
        if (!failed) {
            EXPECT_GT(copies, 0);
            return;
        }
        for (int i = 1; i <= 4097; ++i)
            cache.remember(costly_key(i), i);
        EXPECT_FALSE(cache.find(costly_key(1))) << copies;
        EXPECT_TRUE(cache.find(costly_key(2))) << copies;
    }
}

}  // namespace
}  // namespace syncguard::firestore
