/// What is known while one tries again, and what is remembered.
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

TEST(attempts, are_contended_when_others_were_faster_again_and_again) {
    attempts so_far;
    so_far.failed(setback::contention, reason(), "v");
    so_far.failed(setback::lost, reason(), "v");
    so_far.failed(setback::conflict, reason(), "v");
    EXPECT_FALSE(so_far.are_contended());
    so_far.failed(setback::conflict, reason(), "w");
    EXPECT_TRUE(so_far.are_contended());
}

TEST(attempts, leave_a_commit_in_doubt_until_something_is_known_of_it) {
    attempts so_far;
    EXPECT_FALSE(so_far.is_in_doubt());
    so_far.begin();
    EXPECT_TRUE(so_far.is_in_doubt());
    so_far.failed(setback::conflict, reason(), "v");
    EXPECT_FALSE(so_far.is_in_doubt());
    so_far.begin();
    so_far.had_no_effect();
    EXPECT_FALSE(so_far.is_in_doubt());
    so_far.failed(setback::lost, reason(), "v");
    so_far.begin();
    so_far.had_no_effect();
    EXPECT_TRUE(so_far.is_in_doubt());
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

/// A key that cannot be copied when memory is short.
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

TEST(the_memory, stays_bounded_where_there_is_no_memory_for_an_entry) {
    for (int copies = 0;; ++copies) {
        bounded_memory<costly_key, int> memory;
        costly_key::copies_left = copies;
        bool failed = false;
        try {
            memory.remember(costly_key(0), 0);
        } catch (const std::bad_alloc&) {
            failed = true;
        }
        costly_key::copies_left = -1;
        if (!failed) {
            EXPECT_GT(copies, 0);
            return;
        }
        for (int i = 1; i <= 4097; ++i)
            memory.remember(costly_key(i), i);
        EXPECT_FALSE(memory.find(costly_key(1))) << copies;
        EXPECT_TRUE(memory.find(costly_key(2))) << copies;
    }
}

}  // namespace
}  // namespace syncguard::firestore
